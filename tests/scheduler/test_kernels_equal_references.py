"""What is computed over whole arrays equals what a plain loop finds, one queue and one node at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.core import Pod
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.devices import choose_devices
from bosket.scheduler.framework.placement import place_job
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task
from bosket.scheduler.plugins.proportion.division import QueueDemand, divide_tree
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of
from tests.scheduler.random_cluster import RandomCluster, clusters
from tests.scheduler.reference import PlainNode, Sharer, choose_node, fair_shares, place_gang, take

pytestmark = pytest.mark.slow

BIN_PACK, SPREAD = "binpack", "spread"

# Fair shares

sharers = st.builds(
    Sharer,
    name=st.just(""),
    parent=st.just(""),
    priority=st.sampled_from((100, 100, 200)),
    created=st.integers(0, 2),
    quota=st.sampled_from((-1.0, 0.0, 1.0, 3.0, 2.5, 10.0, 40.0)),
    limit=st.sampled_from((-1.0, -1.0, -1.0, 0.0, 2.0, 7.5, 30.0)),
    weight=st.sampled_from((0.0, 1.0, 1.0, 2.0, 3.0, 0.5)),
    request=st.sampled_from((0.0, 1.0, 4.0, 0.25, 9.0, 33.0, 100.0)),
    usage=st.sampled_from((0.0, 0.0, 0.1, 0.3, 0.9)),
)


@st.composite
def queue_trees(draw: st.DrawFn) -> list[Sharer]:
    made: list[Sharer] = []
    for number, sharer in enumerate(draw(st.lists(sharers, min_size=1, max_size=12))):
        parent = draw(st.sampled_from(["", *(each.name for each in made)]))
        made.append(replace(sharer, name=f"q{number:02}", parent=parent))
    return made


@given(queue_trees(), st.sampled_from((0.0, 5.0, 17.0, 64.0, 1000.0)), st.sampled_from((0.0, 1.0, 0.5, 4.0)))
@settings(max_examples=200)
def test_fair_shares_are_those_of_a_plain_loop(queues: list[Sharer], total: float, k: float) -> None:
    rows = {each.name: row for row, each in enumerate(queues)}
    children = [[rows[each.name] for each in queues if each.parent == parent.name] for parent in queues]
    demand = QueueDemand(
        quota=np.array([each.quota for each in queues]),
        limit=np.array([each.limit for each in queues]),
        weight=np.array([each.weight for each in queues]),
        request=np.array([each.request for each in queues]),
        usage=np.array([each.usage for each in queues]),
        priority=np.array([each.priority for each in queues]),
        rank=np.argsort(np.argsort([each.created for each in queues], kind="stable"), kind="stable"),
    )
    roots = [rows[each.name] for each in queues if not each.parent]
    shares = divide_tree(total, demand, roots, children, k)
    expected = fair_shares(total, queues, k)
    assert shares == pytest.approx([expected[each.name] for each in queues], abs=1e-6)


# Nodes


def placing(strategy: str) -> Configuration:
    plugins = tuple(
        PluginChoice(each.name, {"gpu": strategy, "cpu": strategy}) if each.name == "nodeplacement" else each
        for each in Configuration().plugins
    )
    return Configuration(plugins=plugins)


def plain_nodes(snapshot: Snapshot, member: Pod) -> list[PlainNode]:
    """The nodes as they are before anything is decided, for one pod."""
    table, names = snapshot.nodes, snapshot.resource_names

    def column(array: np.ndarray, row: int) -> dict[str, float]:
        return dict(zip(names, array[:, row].tolist(), strict=True))

    tolerated = {each.key for each in member.spec.tolerations}
    return [
        PlainNode(
            name=each.metadata.name,
            allocatable=column(table.allocatable, row),
            idle=column(table.idle, row),
            releasing=column(table.releasing, row),
            accepts=not each.spec.unschedulable
            and all(taint.key in tolerated for taint in each.spec.taints)
            and all(each.metadata.labels.get(key) == value for key, value in member.spec.nodeSelector.items()),
        )
        for row, each in enumerate(table.nodes)
    ]


def request_of(snapshot: Snapshot, task: Task) -> dict[str, float]:
    return dict(zip(snapshot.resource_names, task.pod_class.request.tolist(), strict=False))


@given(clusters(releasing=False, sharing=False, close=False), st.sampled_from((BIN_PACK, SPREAD)))
@settings(max_examples=200)
def test_each_pod_gets_the_node_that_a_plain_loop_finds_best(cluster: RandomCluster, strategy: str) -> None:
    snapshot = snapshot_of(cluster.objects())
    decisions = decide(snapshot, placing(strategy))
    bound: list[tuple[str, dict[str, float]]] = []
    for bind in decisions.binds:
        nodes = plain_nodes(snapshot, bind.task.pod)
        for name, request in bound:
            take(next(each.idle for each in nodes if each.name == name), request)
        best = choose_node(nodes, request_of(snapshot, bind.task), strategy)
        assert best is not None
        assert (bind.task.key, bind.node) == (bind.task.key, best.name)
        bound.append((bind.node, request_of(snapshot, bind.task)))


nodes_with_leavers = st.lists(st.tuples(st.sampled_from((0, 2, 4, 8)), st.integers(0, 8)), min_size=1, max_size=5)


@given(nodes_with_leavers, st.integers(0, 6), st.integers(0, 6), st.integers(0, 3), st.sampled_from((BIN_PACK, SPREAD)))
@settings(max_examples=200)
def test_what_is_being_released_is_promised_as_a_plain_loop_would(
    gpus: list[tuple[int, int]], minimum: int, extras: int, wanted: int, strategy: str
) -> None:
    nodes = [node(f"n{number}", gpus=has) for number, (has, _) in enumerate(gpus)]
    leaving = [
        pod(f"leaving{number}").gpu(min(has, goes)).cpu("1").running_on(f"n{number}").being_deleted_at(NOW).build()
        for number, (has, goes) in enumerate(gpus)
    ]
    members = gang("g", minimum + extras, gpus=wanted)
    snapshot = snapshot_of(nodes, leaving, queue("q"), pod_group("g", min_member=minimum), members)
    decisions = decide(snapshot, placing(strategy))

    world = plain_nodes(snapshot, members[0]) if members else []
    request = {"gpu": float(wanted), "pods": 1.0}
    bound, promised = place_gang(world, request, minimum, extras, strategy)
    assert [bind.node for bind in decisions.binds] == bound
    assert [pipeline.node for pipeline in decisions.pipelined] == promised


# Shared GPUs


@given(clusters(), st.integers(0, 6))
@settings(max_examples=150)
def test_what_fits_by_arrays_fits_node_by_node(cluster: RandomCluster, placed: int) -> None:
    session = open_session(snapshot_of(cluster.objects()), Configuration())
    statement = Statement(session)
    for job in session.jobs.candidates()[:placed]:
        place_job(session, statement, job)
    ledger = session.nodes
    rows = range(len(session.snapshot.nodes))
    for pod_class in {task.pod_class for job in session.snapshot.jobs.values() for task in job.tasks}:
        assert ledger.fit(pod_class).tolist() == [ledger.fits(pod_class, NodeRow(row)) for row in rows]
        assert ledger.fit_idle(pod_class, slice(None)).tolist() == [
            ledger.fits_idle(pod_class, NodeRow(row)) for row in rows
        ]
        for scorer in session.extensions.node_scores:
            scores = scorer.scores(pod_class, slice(None)).tolist()
            assert scores == [scorer.score(pod_class, NodeRow(row)) for row in rows]
        if pod_class.share is not None:
            for row in rows:
                choice = choose_devices(session, pod_class, NodeRow(row))
                enough = pod_class.share.is_possible_on(ledger.shared.sizes[row]) and choice is not None
                assert enough or not ledger.fits(pod_class, NodeRow(row))


@given(clusters(), st.data())
@settings(max_examples=60)
def test_a_node_that_holds_more_than_it_has_takes_nobody_whether_one_is_asked_about_or_all(
    cluster: RandomCluster, data: st.DataObject
) -> None:
    """Also where what it has too little of isn't asked for; a pod that shares GPUs needs no whole one."""
    session = open_session(snapshot_of(cluster.objects(), now=NOW), Configuration())
    nodes = session.nodes
    if not len(session.snapshot.nodes):
        return
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from([GPU, GPU, *range(len(nodes.idle))]))
        row = data.draw(st.integers(0, len(session.snapshot.nodes) - 1))
        nodes.overdrawn = True
        nodes.reserve(NodeRow(row), [(place, data.draw(st.sampled_from([1.0, 1.0, 4.0, 1e6, 1e12])))])
        every = range(len(session.snapshot.nodes))
        for pod_class in {task.pod_class for job in session.snapshot.jobs.values() for task in job.tasks}:
            expected = [nodes.fits(pod_class, NodeRow(each)) for each in every]
            assert nodes.fit(pod_class).tolist() == expected
            assert nodes.fit(pod_class, np.array(every)).tolist() == expected


def test_who_shares_gpus_needs_no_whole_one_where_more_are_held_than_there_are() -> None:
    shares = [pod(name).of_group(name).shares_gpu(0.5) for name in ("a", "b", "c")]
    running = [each.running_on("n").in_gpu_groups(f"g{number}").build() for number, each in enumerate(shares[:2])]
    groups = [pod_group(name, queue="q") for name in ("a", "b", "c")]
    snapshot = snapshot_of(node("n", gpus=2), queue("q"), groups, running, [shares[2].build()], now=NOW)
    session = open_session(snapshot, Configuration())
    (waiting,) = (task for job in snapshot.jobs.values() for task in job.tasks if not task.node)
    session.nodes.overdrawn = True
    session.nodes.reserve(NodeRow(0), [(GPU, 1.0)])
    assert session.nodes.fits(waiting.pod_class, NodeRow(0))
    assert session.nodes.fit(waiting.pod_class).tolist() == [True]
