"""The account of zones follows every operation and its undoing, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.statement import Statement
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.plugins.numa.ledger import ZoneLedger
from bosket.testing.build import node, numa_zones, pod_group, queue
from bosket.testing.cluster import snapshot_of
from tests.numa.zoned import aligning, guaranteed, seen_in
from tests.present import present

POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


def ledger_of(session: Session) -> ZoneLedger:
    (ledger,) = session.extensions.placement_listeners
    assert isinstance(ledger, ZoneLedger)
    return ledger


def account(session: Session) -> Any:
    """What is free everywhere, and what everybody has."""
    ledger = ledger_of(session)
    nodes = {row: ledger.at(row) for row in ledger.zones}
    free = {
        row: [[list(zone) for zone in of] for of in (present(each).free, present(each).now)]
        for row, each in nodes.items()
    }
    return free, {task: given for task, given in ledger._held.items() if given}


@st.composite
def clusters(draw: st.DrawFn) -> list[KubeObject]:
    objects: list[KubeObject] = [queue("q")]
    count = draw(st.integers(1, 3))
    for number in range(count):
        zones = [{"cpu": str(draw(st.integers(1, 6)))} for _ in range(draw(st.integers(1, 3)))]
        policy = draw(st.sampled_from(POLICIES))
        objects += [node(f"n{number}"), numa_zones(f"n{number}", *zones, policy=policy)]
    for number, (cpu, on, zone) in enumerate(
        draw(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 3)), max_size=5))
    ):
        member = guaranteed(f"r{number}", str(cpu)).running_on(f"n{on % count}")
        known = seen_in(member, {f"node-{zone}": {"cpu": str(cpu)}}) if zone < 3 else member
        objects += [pod_group(f"r{number}"), known.build()]
    for number, cpu in enumerate(draw(st.lists(st.integers(1, 6), max_size=5))):
        objects += [pod_group(f"p{number}"), guaranteed(f"p{number}", str(cpu)).build()]
    return objects


@given(clusters(), st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), st.data())
@settings(max_examples=30, deadline=None)
def test_whatever_is_done_in_whatever_order_can_be_undone_exactly(
    objects: Sequence[KubeObject], steps: Sequence[tuple[int, bool]], data: st.DataObject
) -> None:
    session = open_session(snapshot_of(objects), aligning())
    snapshot = session.snapshot
    tasks = [(session.jobs.state(job), task) for job in snapshot.jobs.values() for task in job.tasks]
    before = account(session)
    statement = Statement(session)
    marks = []
    for number, real in steps:
        if not tasks:
            break
        state, task = tasks[number % len(tasks)]
        marks.append((len(statement.operations), account(session)))
        if state.placement(task).status in (TaskStatus.PENDING, TaskStatus.RELEASING):
            row = data.draw(st.integers(0, len(snapshot.nodes) - 1))
            pending = state.placement(task).status == TaskStatus.PENDING
            (statement.allocate if real and pending else statement.pipeline)(state, task, NodeRow(row))
        elif task not in statement._evicted:  # a statement evicts nobody twice
            statement.evict(state, task)
        if data.draw(st.integers(0, 4)) == 0:
            start, then = data.draw(st.sampled_from(marks))
            statement.rollback(start)
            assert account(session) == then
            marks = [each for each in marks if each[0] <= start]
    statement.discard()
    assert account(session) == before


def two_victims() -> tuple[Session, dict[str, tuple[JobState, Task]]]:
    zones = numa_zones("n", {"cpu": "4"}, {"cpu": "4"})
    victims = [seen_in(guaranteed(f"v{i}").running_on("n"), {f"node-{i}": {"cpu": "3"}}).build() for i in (0, 1)]
    groups = [pod_group(name) for name in ("v0", "v1", "p")]
    session = open_session(
        snapshot_of([queue("q"), node("n"), zones, *groups, *victims, guaranteed("p").build()]), aligning()
    )
    jobs = {job.key.name: (session.jobs.state(job), next(iter(job.tasks))) for job in session.snapshot.jobs.values()}
    return session, jobs


def test_a_victim_whose_zone_is_taken_moves_to_the_other_one_within_its_node() -> None:
    session, jobs = two_victims()
    ledger = ledger_of(session)
    statement = Statement(session)
    for name in ("v0", "v1"):
        statement.evict(*jobs[name])
    assert present(ledger.at(NodeRow(0))).free == [[4000], [4000]]
    statement.pipeline(*jobs["p"], NodeRow(0))
    statement.pipeline(*jobs["v0"], NodeRow(0))
    assert ledger.held(jobs["v0"][1], NodeRow(0)) == ((1, (3000,)),)
    assert present(ledger.at(NodeRow(0))).free == [[1000], [1000]]
    statement.commit()
    decisions = session.close()
    assert {each.task.key.name: each.moves_to for each in decisions.evictions} == {"v0": "n", "v1": ""}


def test_a_victim_that_would_get_its_own_zone_again_is_spared() -> None:
    session, jobs = two_victims()
    statement = Statement(session)
    before = account(session)
    for name in ("v0", "v1"):
        statement.evict(*jobs[name])
    statement.pipeline(*jobs["v0"], NodeRow(0))
    statement.pipeline(*jobs["v1"], NodeRow(0))
    assert account(session) == before
    statement.commit()
    assert session.close().evictions == ()


def test_a_pod_that_nobody_aligns_takes_no_zone() -> None:
    session = open_session(
        snapshot_of(
            [
                queue("q"),
                node("n"),
                numa_zones("n", {"cpu": "4"}, policy="none"),
                pod_group("p"),
                guaranteed("p").build(),
            ]
        ),
        aligning(),
    )
    (job,) = session.snapshot.jobs.values()
    Statement(session).allocate(session.jobs.state(job), next(iter(job.tasks)), NodeRow(0))
    assert present(ledger_of(session).at(NodeRow(0))).free == [[4000]]


@given(clusters())
@settings(max_examples=30, deadline=None)
def test_a_view_kept_by_columns_equals_one_made_anew(objects: Sequence[KubeObject]) -> None:
    session = open_session(snapshot_of(objects), aligning())
    statement = Statement(session)
    for job in session.snapshot.jobs.values():
        for task in job.tasks:
            state = session.jobs.state(job)
            if state.placement(task).status != TaskStatus.PENDING:
                statement.evict(state, task)
                continue
            row = session.views.of(task.pod_class).best()
            session.views.clear()
            assert session.views.of(task.pod_class).best() == row
            if row is not None:
                (statement.allocate if session.is_free_now(task.pod_class, row) else statement.pipeline)(
                    state, task, row
                )
