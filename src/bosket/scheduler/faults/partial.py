"""A snapshot without some of its jobs, nodes or queues.

Used by `quarantine` to try `decide` without an object. Pods of a job that is left out keep their resources; they are
neither placed nor evicted. A node that is left out doesn't exist for the cycle; its pods keep running. Jobs of a queue
that is left out wait, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bosket.api.core import Node
from bosket.api.kai import Topology, TopologyLevel, TopologySpec
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.scheduler.model.node import Devices, NodeTable, rows_of
from bosket.scheduler.model.queue import QueueTree, build_tree
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.topology import TopologyTree, paths_of
from bosket.scheduler.model.topology import build_tree as build_topology
from bosket.scheduler.model.verdict import VerdictMemory


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a cycle leaves out."""

    jobs: frozenset[ObjectKey] = frozenset()
    nodes: frozenset[str] = frozenset()
    queues: Mapping[str, str] = field(default_factory=dict)  #: name → reason for which their jobs wait

    def __bool__(self) -> bool:
        return bool(self.jobs or self.nodes or self.queues)


def without(snapshot: Snapshot, left_out: LeftOut) -> Snapshot:
    """The snapshot without these; the very same object where there are none."""
    if left_out.jobs:
        snapshot = _without_jobs(snapshot, left_out.jobs)
    if not left_out.nodes.isdisjoint(snapshot.nodes.rows):
        snapshot = _without_nodes(snapshot, left_out.nodes)
    if left_out.queues:
        snapshot = replace(snapshot, queues=_without_queues(snapshot.queues, left_out.queues))
    return snapshot


def _without_jobs(snapshot: Snapshot, jobs: frozenset[ObjectKey]) -> Snapshot:
    return replace(
        snapshot,
        jobs={key: job for key, job in snapshot.jobs.items() if key not in jobs},
        unsettled=tuple(job for job in snapshot.unsettled if job.key not in jobs),
        stale=tuple(job for job in snapshot.stale if job.key not in jobs),
        nominations=tuple(nomination for nomination in snapshot.nominations if nomination.job not in jobs),
        reservations=tuple(each for each in snapshot.reservations if each.job not in jobs),
    )


def _without_nodes(snapshot: Snapshot, names: frozenset[str]) -> Snapshot:
    table = snapshot.nodes
    kept = [row for row in table.all_rows() if table.nodes[row].metadata.name not in names]
    new_rows = dict(zip(kept, rows_of(kept), strict=True))
    devices = table.devices
    fewer = NodeTable(
        nodes=tuple(table.nodes[row] for row in kept),
        rows={table.nodes[old].metadata.name: new for old, new in new_rows.items()},
        allocatable=table.allocatable[:, kept],
        idle=table.idle[:, kept],
        foreign=table.foreign[:, kept],
        releasing=table.releasing[:, kept],
        devices=Devices(
            sizes=tuple(devices.sizes[row] for row in kept),
            known=devices.known[kept],
            groups={new_rows[row]: groups for row, groups in devices.groups.items() if row in new_rows},
            legacy_mig=frozenset(new_rows[row] for row in devices.legacy_mig if row in new_rows),
            smallest=devices.smallest,
            largest=devices.largest,
        ),
        static_version=table.static_version,
    )
    return replace(
        snapshot,
        nodes=fewer,
        residents={name: tasks for name, tasks in snapshot.residents.items() if name not in names},
        topologies={name: _arranged(tree, fewer.nodes) for name, tree in snapshot.topologies.items()},
        memory=VerdictMemory(),  # the verdicts of the whole snapshot are about other rows
    )


def _arranged(tree: TopologyTree, nodes: tuple[Node, ...]) -> TopologyTree:
    """The same topology over these nodes alone: a domain without any isn't there."""
    alias = {label: alias for alias, label in tree.aliases.items()}
    levels = tuple(TopologyLevel(nodeLabel=label, alias=alias.get(label)) for label in tree.labels)
    topology = Topology(metadata=ObjectMeta(name=tree.name), spec=TopologySpec(levels=levels))
    return build_topology(topology, paths_of(tree.labels, nodes))


def _without_queues(tree: QueueTree, queues: Mapping[str, str]) -> QueueTree:
    kept = [queue for queue in tree.queues if queue.name not in queues]
    return build_tree(kept, {**tree.refused, **queues})
