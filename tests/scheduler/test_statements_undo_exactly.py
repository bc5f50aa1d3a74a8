"""Whatever a statement does can be undone exactly, and views of nodes follow it exactly."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework import class_view
from bosket.scheduler.framework.departure import Baseline, Departure
from bosket.scheduler.framework.devices import choose_devices
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of
from tests.present import present

RUNNING = TaskStatus.RUNNING

#: Whole GPUs, and parts of one or several.
asking = st.sampled_from(
    (
        *(lambda builder, gpus=gpus: builder.gpu(gpus) for gpus in (1, 2, 3)),
        lambda builder: builder.shares_gpu(0.5),
        lambda builder: builder.shares_gpu(0.3, devices=2),
        lambda builder: builder.gpu_memory(3000),
    )
)
gangs = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 6), asking, st.sampled_from("abc")), max_size=8
)  # fewer than all that are needed, pods, what each asks for, queue


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    nodes = [
        node(f"n{i}", gpus=gpus, gpu_memory=4096 * (1 + i % 2))
        for i, gpus in enumerate(draw(st.lists(st.integers(0, 8), min_size=1, max_size=6)))
    ]
    queues = [queue("unlimited"), queue("top", limit=draw(st.sampled_from([-1, 6, 12])))]
    queues += [queue(name, parent="top", limit=draw(st.sampled_from([-1, 2, 5]))) for name in "abc"]
    groups, pods = [], []
    for number, (less, size, ask, name) in enumerate(draw(gangs)):
        groups.append(pod_group(f"g{number}", min_member=max(0, size - less), queue=name))
        pods += [ask(pod(f"g{number}-{each}").of_group(f"g{number}")).build() for each in range(size)]
    for number, (row, gpus, leaving) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.booleans()), max_size=5))
    ):
        held = pod(f"r{number}").gpu(gpus).running_on(f"n{row % len(nodes)}")
        pods.append((held.being_deleted_at(NOW) if leaving else held).build())
    for number, (row, ask) in enumerate(draw(st.lists(st.tuples(st.integers(0, 5), asking), max_size=4))):
        groups.append(pod_group(f"running{number}", queue="unlimited"))
        member = ask(pod(f"running{number}-0").of_group(f"running{number}")).in_gpu_groups("first", "second")
        pods.append(member.running_on(f"n{row % len(nodes)}").build())
    return [*nodes, *queues, *groups, *pods]


def accounts(session: Session) -> tuple[Any, ...]:
    """Everything that a statement may change, byte for byte."""
    queues = session.queues
    return (
        session.nodes.idle.tobytes(),
        session.nodes.releasing.tobytes(),
        {row: dict(session.nodes.shared.on(NodeRow(row))) for row in range(len(session.snapshot.nodes))},
        queues.allocated[:],
        queues.non_preemptible[:],
        session.nodes.overdrawn,
    )


def devices(session: Session, task: Task, row: int) -> tuple[str, ...]:
    """Those that the scheduler would choose."""
    if task.pod_class.share is None:
        return ()
    return present(choose_devices(session, task.pod_class, NodeRow(row))).names(session, task, NodeRow(row))


@given(clusters(), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=100, deadline=None)
def test_undo_restores_everything_to_the_bit(objects: Sequence[KubeObject], keep: int, evict: int) -> None:
    snapshot = snapshot_of(objects)
    session = open_session(snapshot, Configuration())
    jobs = session.jobs.candidates()
    running = [
        (session.jobs.state(job), task)
        for job in snapshot.jobs.values()
        for task in job.tasks
        if task.status == RUNNING
    ]
    before = accounts(session)
    next_before = [[task.key for task in job.next_tasks()] for job in jobs]
    statement = Statement(session)
    for state, task in running[:evict]:
        statement.evict(state, task)
    for number, job in enumerate(jobs + [state for state, _ in running]):
        with statement.checkpoint() as trial:
            for task in job.next_tasks():
                row = session.views.of(task.pod_class).best()
                if row is not None:
                    place = statement.pipeline if number % 2 or job not in jobs else statement.allocate
                    place(job, task, row, devices(session, task, row))
            if number < keep:
                trial.keep()
    for job in jobs:
        statement.convert_to_pipelined(job)
    statement.discard()
    assert accounts(session) == before
    assert [[task.key for task in job.next_tasks()] for job in jobs] == next_before


def test_a_victim_that_finds_a_place_where_it_was_is_not_evicted_at_all() -> None:
    snapshot = snapshot_of(
        [
            node("n0", gpus=2),
            queue("a"),
            pod_group("g", queue="a"),
            pod("p").of_group("g").gpu(2).running_on("n0").build(),
        ]
    )
    session = open_session(snapshot, Configuration())
    (job,) = snapshot.jobs.values()
    (task,) = job.tasks
    state = session.jobs.state(job)
    before = accounts(session)
    statement = Statement(session)
    statement.evict(state, task)
    assert state.next_tasks() == [task]
    assert accounts(session) != before
    statement.pipeline(state, task, present(session.views.of(task.pod_class).best()))
    statement.commit()
    assert accounts(session) == before
    assert session.close().evictions == ()


@pytest.mark.parametrize("all_at_once", [False, True])
def test_a_node_is_no_longer_overdrawn_when_the_eviction_of_a_promised_pod_is_undone(all_at_once: bool) -> None:
    """A pod that loses a place which it was only promised leaves a debt on the node while that is in effect."""
    objects = [node("n0", gpus=1), queue("a"), pod_group("old", queue="a"), pod_group("g", queue="a")]
    objects += [pod("p").of_group("old").gpu(1).running_on("n0").build(), pod("q").of_group("g").gpu(1).build()]
    session = open_session(snapshot_of(objects), Configuration())
    job = {state.job.key.name: state for state in map(session.jobs.state, session.snapshot.jobs.values())}
    (old,), (task,) = job["old"].job.tasks, job["g"].job.tasks
    promise = Statement(session)
    promise.evict(job["old"], old)
    promise.pipeline(job["g"], task, NodeRow(0))
    assert not session.nodes.overdrawn
    before = accounts(session)
    baseline = Baseline(session.nodes, session.queues) if all_at_once else None
    statement = Statement(session, baseline=baseline)
    if all_at_once:
        statement.evict_all([Departure(job["g"], (task,), 1)])
    else:
        statement.evict(job["g"], task)
    assert session.nodes.overdrawn
    with statement.checkpoint():  # type: ignore[unreachable]
        statement.pipeline(job["old"], old, NodeRow(0))
    assert session.nodes.overdrawn
    statement.discard()
    assert accounts(session) == before
    promise.discard()


@given(clusters(), st.lists(st.booleans(), min_size=8, max_size=8), st.sampled_from([0, class_view.FEW_ROWS]))
@settings(max_examples=100, deadline=None)
def test_a_view_kept_by_columns_equals_one_made_anew(
    objects: Sequence[KubeObject], kept: Sequence[bool], few_rows: int
) -> None:
    """Also when what was placed is taken back; whether columns are renewed one by one or together."""
    session = open_session(snapshot_of(objects), Configuration())
    statement = Statement(session)
    with patch.object(class_view, "FEW_ROWS", few_rows):
        for job, is_kept in zip(session.jobs.candidates(), kept, strict=False):
            with statement.checkpoint() as trial:
                for task in job.next_tasks():
                    row = session.views.of(task.pod_class).best()
                    assert row == session.views.without_base(task.pod_class).best()
                    if row is not None:
                        statement.allocate(job, task, row, devices(session, task, row))
                if is_kept:
                    trial.keep()


@given(clusters(), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_tasks_allocated_in_one_step_leave_what_they_leave_one_by_one(objects: Sequence[KubeObject], back: int) -> None:
    """What they take, from nodes and from queues, how many have room, and what is there when some are taken back."""
    snapshot = snapshot_of(objects)
    at_once, one_by_one = (open_session(snapshot, Configuration()) for _ in range(2))
    for job, same in zip(at_once.jobs.candidates(), one_by_one.jobs.candidates(), strict=True):
        statement, other = Statement(at_once), Statement(one_by_one)
        tasks = job.next_tasks()
        ledger = one_by_one.nodes
        rows = [row for row in range(len(snapshot.nodes)) if tasks and fits_now(ledger, tasks[0], row)]
        if not rows or tasks[0].pod_class.share is not None:
            continue
        placed = statement.allocate_many(job, tasks, 0, len(tasks), NodeRow(rows[-1]))
        assert placed > 0
        for task in tasks[:placed]:
            assert fits_now(ledger, task, rows[-1])
            other.allocate(same, task, NodeRow(rows[-1]))
        if placed < len(tasks):  # where a node holds more than it has, room isn't counted beforehand
            assert ledger.overdrawn or not fits_now(ledger, tasks[placed], rows[-1])
        assert accounts(at_once) == accounts(one_by_one)
        assert job.active_tasks() == same.active_tasks() == list(tasks[:placed])
        for each in (statement, other):
            each.rollback(max(0, placed - back))
        assert accounts(at_once) == accounts(one_by_one)
        assert job.next_tasks() == same.next_tasks()


def fits_now(ledger: NodeLedger, task: Task, row: int) -> bool:
    return ledger.fits(task.pod_class, NodeRow(row)) and ledger.fits_idle(task.pod_class, NodeRow(row))
