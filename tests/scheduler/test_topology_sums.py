"""Sums by domain are kept right while single nodes change; arrangements of nodes last as long as nobody moves."""

from __future__ import annotations

import random

import msgspec
import numpy as np

from bosket.api.core import Node, Taint
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.plugins.topology.capacity import Demand, TreeCapacity
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod_group, queue, topology
from bosket.testing.cluster import NOW, drop_named, snapshot_of

LEVELS = ("zone", "rack")


def nodes(count: int) -> list[Node]:
    return [node(f"n{i:02}", gpus=1 + i % 4, zone=f"z{i % 2}", rack=f"r{i % 6}") for i in range(count)]


def test_sums_are_those_of_all_nodes_after_any_placements_and_undoings() -> None:
    chance = random.Random(7)
    snapshot = snapshot_of(
        nodes(20), queue("q"), topology("t", *LEVELS), [pod_group("g", min_member=1), *gang("g", 40)]
    )
    session = Session(snapshot, Configuration())
    (job,) = (session.jobs.state(each) for each in snapshot.jobs.values())
    tasks = list(job.job.tasks)
    demand = Demand(tasks[:3], len(snapshot.resource_names))
    kept = TreeCapacity(session.nodes, snapshot.topologies["t"])
    for _ in range(30):
        statement = Statement(session, job.job)
        for task in chance.sample(tasks, chance.randint(0, 5)):
            statement.pipeline(job, task, NodeRow(chance.randrange(20)))
        _compare(kept, TreeCapacity(session.nodes, snapshot.topologies["t"]), demand)
        statement.discard()
    _compare(kept, TreeCapacity(session.nodes, snapshot.topologies["t"]), demand)


def _compare(kept: TreeCapacity, fresh: TreeCapacity, demand: Demand) -> None:
    for level in range(len(kept.tree.levels)):
        assert np.array_equal(kept.pods(demand, level), fresh.pods(demand, level))
        assert np.array_equal(kept.fullness(demand, level), fresh.fullness(demand, level))


def test_sums_of_a_level_are_sums_over_the_nodes_of_its_domains() -> None:
    (tree,) = snapshot_of(nodes(20), queue("q"), topology("t", *LEVELS)).topologies.values()
    amounts = np.arange(20.0)
    for level, sums in zip(tree.levels, tree.sums(amounts), strict=True):
        assert sums.tolist() == [amounts[level.of_row == domain].sum() for domain in range(len(level.names))]


def test_nodes_are_arranged_anew_only_when_one_of_them_is_elsewhere() -> None:
    state = ClusterState()
    state.put(topology("t", *LEVELS))
    members = nodes(4)
    for each in members:
        state.put(each)
    before = state.snapshot(NOW).topologies["t"]
    tainted = msgspec.structs.replace(
        members[0], spec=msgspec.structs.replace(members[0].spec, taints=(Taint(key="x", effect="NoSchedule"),))
    )
    state.put(tainted)
    assert state.snapshot(NOW).topologies["t"] is before
    state.put(node("n00", gpus=1, zone="z1", rack="r1"))
    after = state.snapshot(NOW).topologies["t"]
    assert after.levels[2].names == ("z0.r2", "z1.r1", "z1.r3")
    drop_named(state, Node, "n01")
    assert len(state.snapshot(NOW).topologies["t"].levels[2].of_row) == 3
