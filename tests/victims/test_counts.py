"""What is ruled out by counts before it is simulated would have come to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api.object import KubeObject
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.framework.ledger import QueueLedger, is_exact
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.solver.accumulation import Accumulation
from bosket.scheduler.solver.room import Prospect, Room, free_amounts, held_by_job
from bosket.scheduler.solver.search import Search
from bosket.testing.build import queue
from bosket.testing.cluster import NOW, snapshot_of
from tests.victims.cluster_strategy import EVERYTHING, clusters

pytestmark = pytest.mark.slow


def outcome(objects: Sequence[KubeObject]) -> list[tuple[str, str, str]]:
    decisions = decide(snapshot_of(objects, now=NOW), EVERYTHING)
    return [(type(each).__name__, str(each.task.key), each.node) for each in decisions.operations]


@given(clusters())
@settings(max_examples=60)
def test_simulating_what_counts_rule_out_changes_no_decision(objects: Sequence[KubeObject]) -> None:
    decided = outcome(objects)
    with (
        patch.object(Search, "_may_fit", lambda *_: True),
        patch.object(Accumulation, "may_suffice", lambda *_: True),
        patch.object(Accumulation, "may_suffice_in_domains", lambda *_: True),
        patch.object(Prospect, "is_lost", lambda _: False),
    ):
        assert outcome(objects) == decided


@given(clusters(), st.data())
@settings(max_examples=100)
def test_what_victims_leave_is_counted_as_if_it_had_been_free_before(
    objects: Sequence[KubeObject], data: st.DataObject
) -> None:
    """Only their nodes are looked at again: by one victim after the other, and by all of them together."""
    session = open_session(snapshot_of(objects, now=NOW), EVERYTHING)
    states = [state for state in map(session.jobs.state_of, session.snapshot.jobs.values()) if state]
    pending = [task for state in states for task in state.left_over()]
    running = [state for state in states if state.has_active]
    if not pending:
        return
    pending = data.draw(st.lists(st.sampled_from(pending), min_size=1))
    held = [held_by_job(session, each) for each in (data.draw(st.permutations(running))[:3])]
    nodes = len(session.snapshot.nodes)
    feasible = np.array(data.draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)), dtype=bool)
    free = free_amounts(session)
    room = Room(session, pending, feasible, free)
    before, together, added = room.suffices(), room.suffices_with(held), room.copy()
    for each in held:
        added.add(each)
        free[:, each.rows] += each.amounts
        feasible[each.rows] = True
    assert together == added.suffices() == Room(session, pending, feasible, free).suffices()
    assert room.suffices() == before


AMOUNTS = st.tuples(
    st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.0, 3.0, 8.0]),
    st.sampled_from([0.0, 100.0, 0.1, 7750.0]),
    st.sampled_from([0.0, 2.0**30, 1e15 / 3 // 1]),
)


@given(
    st.lists(st.tuples(st.integers(0, 3).map(QueueRow), AMOUNTS), max_size=12),
    st.lists(AMOUNTS, min_size=4, max_size=4),
)
def test_queues_are_credited_together_where_that_is_the_same_as_one_by_one(
    amounts: list[tuple[QueueRow, QueueAmounts]], had: list[QueueAmounts]
) -> None:
    session = _session_with_queues()
    ledger = session.queues
    for row, each in enumerate(had):
        ledger.charge(QueueRow(row), each, preemptible=True)
    before = ledger.allocated[:]
    together = _credited_together(ledger, amounts)
    ledger.allocated[:] = before
    for row, each in amounts:
        ledger.credit(row, each, preemptible=True)
    assert together in (None, ledger.allocated)


def _credited_together(ledger: QueueLedger, amounts: list[tuple[QueueRow, QueueAmounts]]) -> list[QueueAmounts] | None:
    """What queues hold then; None where it wasn't done, and nothing has changed."""
    before = ledger.allocated[:]
    if all(is_exact(each) for _, each in amounts) and ledger.credit_all(amounts):
        return ledger.allocated[:]
    assert ledger.allocated == before
    return None


def _session_with_queues() -> Session:
    objects = [queue("a"), queue("b", parent="a"), queue("c", parent="a"), queue("d", parent="b")]
    return open_session(snapshot_of(objects, now=NOW), EVERYTHING)


def test_halves_and_quarters_of_gpus_are_exact_and_tenths_are_not() -> None:
    assert is_exact((0.25, 100.0, 2.0**40))
    assert not is_exact((0.3, 100.0, 2.0**40))
    assert not is_exact((1.0, 0.5, 2.0**40))
