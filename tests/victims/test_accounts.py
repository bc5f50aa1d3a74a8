"""On random clusters: accounts are true after every action, a search that fails leaves no trace, rules are kept."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject
from bosket.scheduler.answers.outcome import states
from bosket.scheduler.decide import decide, open_session, run_action
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.ledger import QueueLedger
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction
from bosket.scheduler.model.resource import minus, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED
from bosket.scheduler.solver.order import JobTable
from bosket.scheduler.solver.simulation_order import Branches, SimulationOrder
from bosket.testing.cluster import NOW, snapshot_of
from tests.victims.cluster_strategy import ACTIONS, EVERYTHING, clusters

pytestmark = pytest.mark.slow


def accounts(session: Session) -> Any:
    """Everything that a statement may change, byte for byte, and where every task stands.

    Which of what is free counts as idle is left out: a place that was promised and lost again counts as held.
    """
    return (
        (session.nodes.idle + session.nodes.releasing).tobytes(),
        session.queues.allocated[:],
        session.queues.non_preemptible[:],
        {task: state.placement(task) for state in session.jobs for task in state.job.tasks},
    )


def replayed(snapshot: Any, operations: Any) -> Any:
    """The same accounts, made from the snapshot and what was decided."""
    idle, releasing = snapshot.nodes.idle.copy(), snapshot.nodes.releasing.copy()
    queues = QueueLedger(snapshot)
    for each in operations:
        request, row = each.task.pod_class.request, snapshot.nodes.rows.get(each.node)
        if row is None:
            assert isinstance(each, Eviction)
            continue
        part = slice(len(request)), row
        if isinstance(each, Bind):
            idle[part] -= request
        else:
            releasing[part] += request if isinstance(each, Eviction) else -request
        change = minus if isinstance(each, Eviction) else plus
        for step in queues.tree.paths[queues.tree.rows[each.job.queue]]:
            queues.allocated[step] = change(queues.allocated[step], each.task.pod_class.charge)
            if not each.job.preemptible:
                queues.non_preemptible[step] = change(queues.non_preemptible[step], each.task.pod_class.charge)
    return (idle + releasing).tobytes(), queues.allocated, queues.non_preemptible


@given(clusters())
@settings(max_examples=40)
def test_after_every_action_the_accounts_are_what_the_decisions_make_of_the_snapshot(
    objects: Sequence[KubeObject],
) -> None:
    snapshot = snapshot_of(objects)
    session = open_session(snapshot, EVERYTHING)
    for action in ACTIONS:
        decided_before, before = len(session.outcome.operations), accounts(session)
        run_action(session, action)
        session.outcome.take_back()
        assert accounts(session)[:3] == replayed(snapshot, session.outcome.operations), action
        if len(session.outcome.operations) == decided_before:
            after = accounts(session)
            assert after[:3] == before[:3], f"{action} decided nothing, and left a trace"
            assert {task: after[3][task] for task in before[3]} == before[3]


@given(clusters())
@settings(max_examples=40)
def test_whoever_is_evicted_goes_by_the_rules_and_no_node_is_promised_twice(objects: Sequence[KubeObject]) -> None:
    snapshot = snapshot_of(objects)
    decisions = decide(snapshot, EVERYTHING)
    check_evictions(decisions)
    check_gangs(snapshot, decisions)
    check_nodes(snapshot, decisions)


def check_evictions(decisions: Decisions) -> None:
    served = {(each.job.key, each.action) for each in decisions.pipelined}
    for each in decisions.evictions:
        if each.action == "stalegangeviction":
            assert each.preemptor is None
            continue
        assert each.job.preemptible
        assert each.preemptor is not None
        assert each.preemptor is not each.job
        assert (each.preemptor.key, each.action) in served, "somebody was evicted for nothing"
        if each.action == "preempt":
            assert each.job.queue == each.preemptor.queue
            assert each.job.priority < each.preemptor.priority
        elif each.action == "reclaim":
            assert each.job.queue != each.preemptor.queue


def check_gangs(snapshot: Snapshot, decisions: Decisions) -> None:
    """What had its minimum has it afterwards, or nothing runs of it."""
    ends = states(snapshot, decisions)
    gone = {
        task for task, each in decisions.outcome.items() if isinstance(each, Eviction) and each.preemptor is not None
    }
    for job in snapshot.jobs.values():
        for pod_set in job.pod_sets:
            left = sum(ends[task.key].status in ACTIVE_ALLOCATED for task in pod_set.tasks)
            lost = sum(task in gone for task in pod_set.tasks)
            if lost and pod_set.active >= pod_set.min_available and len(job.pod_sets) == 1:
                assert left == 0 or left >= pod_set.min_available, "a gang was torn apart"


def check_nodes(snapshot: Snapshot, decisions: Decisions) -> None:
    before = snapshot.nodes.idle + snapshot.nodes.releasing
    free = before.copy()
    for each in decisions.operations:
        row = snapshot.nodes.rows.get(each.node)
        if row is not None:
            request = each.task.pod_class.request
            free[: len(request), row] += request if isinstance(each, Eviction) else -request
    assert (free >= np.minimum(0, before)).all()


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_in_which_objects_are_seen_changes_nothing(objects: Sequence[KubeObject], random: Random) -> None:
    def outcome(ordered: Sequence[KubeObject]) -> Any:
        decisions = decide(snapshot_of(ordered), EVERYTHING)
        return (
            [(type(each).__name__, each.task.key, each.node) for each in decisions.operations],
            [(each.job.key, each.text) for each in decisions.waiting],
            [(each.job.key, each.is_due) for each in decisions.stale],
            decisions.look_again_at,
        )

    shuffled = list(objects)
    random.shuffle(shuffled)
    assert outcome(shuffled) == outcome(objects)


CHARGE = (1.0, 2000.0, 4e9)


@given(clusters(), st.data())
@settings(max_examples=100)
def test_in_a_simulation_everybody_has_the_turn_that_he_would_have_among_all_who_wait(
    objects: Sequence[KubeObject], data: st.DataObject
) -> None:
    """Jobs that wait are passed over in runs, and queues where nobody takes part are remembered or left out; going
    through all jobs one by one gives the same order, also when each that is chosen changes what its queue holds."""
    snapshot = snapshot_of(objects, now=NOW)
    session = open_session(snapshot, EVERYTHING)
    waiting = [state for state in map(session.jobs.state_of, snapshot.jobs.values()) if state and state.has_left_over]
    everybody = [state for state in map(session.jobs.state_of, snapshot.jobs.values()) if state and state.job.pod_sets]
    table = JobTable(session, waiting)
    table.find_requests()
    branches = Branches(session, table)

    def drawn(turns: JobsByQueue | SimulationOrder, taking_part: Mapping[JobState, None]) -> list[JobState]:
        """Those that take part as they come, each charged to its queue."""
        found, charged = [], []
        while (job := turns.pop()) is not None:
            if job in taking_part:
                found.append(job)
                charged.append((job.queue_row, session.queues.charge(job.queue_row, CHARGE, preemptible=True)))
        for row, before in reversed(charged):
            session.queues.restore(row, before)
        return found

    for _ in range(data.draw(st.integers(1, 4))):  # what is remembered serves the next one
        part = data.draw(st.sets(st.sampled_from(range(len(everybody))))) if everybody else set()
        taking_part = dict.fromkeys(everybody[i] for i in sorted(part))
        one_by_one = JobsByQueue(session, dict.fromkeys([*waiting, *taking_part]))
        expected = drawn(one_by_one, taking_part)
        assert drawn(SimulationOrder(branches, session, taking_part), taking_part) == expected
