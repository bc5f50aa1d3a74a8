"""Queues take turns by their ranks, which are found again only when something changed."""

from typing import Any

import pytest

from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.turns import Turns
from bosket.scheduler.model.resource import NOTHING, QueueAmounts
from bosket.scheduler.plugins.proportion.order import QueueRanks
from bosket.testing.build import node, queue
from bosket.testing.cluster import snapshot_of
from tests.noting import noting
from tests.present import present


class Waiting:
    """What the jobs of one queue ask for, in GPUs."""

    def __init__(self, *gpus: int) -> None:
        self.gpus = list(gpus)

    def __bool__(self) -> bool:
        return bool(self.gpus)

    def change(self) -> tuple[QueueAmounts, QueueAmounts]:
        return (float(self.gpus[0]), 0.0, 0.0), NOTHING


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The queues that were ranked, one by one."""
    found: list[Any] = []
    real = QueueRanks.rank
    monkeypatch.setattr(QueueRanks, "rank", noting(found, real, lambda _, row, *change: row))
    return found


def take_turn(turns: Turns[Waiting]) -> str:
    row = present(turns.next())
    turns.leaves[row].gpus.pop(0)
    turns.took(row)
    return turns.tree.queues[row].name


def test_a_queue_whose_next_job_asks_for_the_same_keeps_its_rank(ranked: list[Any]) -> None:
    snapshot = snapshot_of(node("n1", gpus=8), queue("a", quota=1), queue("b", quota=8))
    session = open_session(snapshot, Configuration())
    turns = Turns(session, {row: Waiting(*[1] * 50) for row in snapshot.queues.rows.values()})
    ranked.clear()
    assert [take_turn(turns) for _ in range(40)] == ["b"] * 40
    assert not ranked


def test_a_queue_whose_next_job_asks_for_more_gets_another_rank(ranked: list[Any]) -> None:
    snapshot = snapshot_of(node("n1", gpus=8), queue("a", quota=4), queue("b", quota=8))
    session = open_session(snapshot, Configuration())
    rows = snapshot.queues.rows
    turns = Turns(session, {rows["a"]: Waiting(1, 1), rows["b"]: Waiting(1, 8, 8)})
    assert [take_turn(turns) for _ in range(4)] == ["b", "a", "a", "b"]


def test_a_queue_that_was_given_something_gets_another_rank() -> None:
    snapshot = snapshot_of(node("n1", gpus=8), queue("a", quota=4), queue("b", quota=4))
    session = open_session(snapshot, Configuration())
    turns = Turns(session, {row: Waiting(1, 1) for row in snapshot.queues.rows.values()})
    assert take_turn(turns) == "a"
    session.queues.charge(snapshot.queues.rows["a"], (1.0, 0.0, 0.0), preemptible=True)
    assert take_turn(turns) == "b"
