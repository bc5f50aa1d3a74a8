"""What a session of a conformance case leaves in NUMA zones, told from its outcome alone.

The ledger of the plugin follows the decisions once more, one by one, on the snapshot that they were made on; what binds
say of zones must agree with it.
"""

from __future__ import annotations

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.numa.ledger import ZoneLedger

KINDS = {Bind: Kind.ALLOCATE, Pipeline: Kind.PIPELINE, Eviction: Kind.EVICT}


def zones_after(snapshot: Snapshot, decisions: Decisions, pod: str) -> list[int]:
    """The zones that a pod is in, by their places."""
    ledger = _replay(snapshot, decisions)
    task = next(each for job in snapshot.jobs.values() for each in job.tasks if each.key.name == pod)
    operation = decisions.outcome.get(task)
    node = operation.node if operation is not None else task.node
    row = snapshot.nodes.rows.get(node, -1)
    zones = [zone for zone, _ in ledger.held(task, NodeRow(row))]
    if isinstance(operation, Bind):
        ids = ledger.zones[NodeRow(row)].ids if row in ledger.zones else ()
        assert [ids.index(each.zone) for each in operation.numa_zones] == zones
    return zones


def free_after(snapshot: Snapshot, decisions: Decisions, node: str, zone: int) -> dict[str, int]:
    """What is left in a zone, by resource."""
    zones = _replay(snapshot, decisions).at(snapshot.nodes.rows[node])
    assert zones is not None
    return dict(zip(zones.zones.names, zones.free[zone], strict=True))


def _replay(snapshot: Snapshot, decisions: Decisions) -> ZoneLedger:
    ledger = ZoneLedger(Session(snapshot, Configuration()), frozenset(), reconstruct=True)
    for operation in decisions.operations:
        kind = KINDS[type(operation)]
        task: Task = operation.task
        row = snapshot.nodes.rows.get(operation.node)
        if row is not None:
            ledger.done(kind, task, row)
    return ledger
