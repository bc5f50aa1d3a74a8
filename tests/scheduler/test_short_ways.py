"""Short ways decide what the long ones do, to the byte: each is closed in turn, on random clusters."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.framework.class_view import ClassView
from bosket.scheduler.framework.shared_gpus import SharedGpus
from bosket.scheduler.framework.turns import _Turn
from bosket.scheduler.plugins.proportion.order import QueueRanks
from bosket.scheduler.solver import failed
from bosket.scheduler.solver.failed import FailedJobs
from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import decided, snapshot_of
from tests.noting import noting
from tests.scheduler.random_cluster import RandomCluster, clusters
from tests.scheduler.transcript import transcript

ALLOCATE = import_module("bosket.scheduler.actions.allocate")  # of the package, it is the action's function
#: What is closed: where a short way begins, and what is there instead.
CLOSED: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "jobs of one pod are decided at once": (ALLOCATE, "place_single", lambda *_: False),
    "equal pods stay with their node": (ClassView, "_goes_on", lambda *_: False),
    "room on shared GPUs is kept": (
        SharedGpus,
        "_update_with_room",
        lambda self, row, _: self._with_room.pop(row, None),
    ),
    "ranks of an earlier action are taken up": (
        _Turn,
        "take_up",
        lambda self, _, known=_Turn.take_up: known(self, None),
    ),
    "jobs alike by class and number": (failed, "_alone", lambda _: None),
}


@pytest.mark.parametrize("way", CLOSED)
@given(cluster=clusters())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_long_way_decides_the_same(way: str, cluster: RandomCluster) -> None:
    snapshot = snapshot_of(cluster.objects())
    short = transcript(snapshot, decide(snapshot, Configuration()))
    with pytest.MonkeyPatch.context() as patch:
        owner, name, instead = CLOSED[way]
        patch.setattr(owner, name, instead)
        snapshot = snapshot_of(cluster.objects())
        assert transcript(snapshot, decide(snapshot, Configuration())) == short


def lonely_jobs(number: int) -> list[KubeObject]:
    """A full node, and queues with a job each that waits."""
    queues = [queue(f"q{each}", quota=0) for each in range(number)]
    return [node("n1", gpus=1), *queues, *job("runs", queue="q0", on="n1"), *waiting(number)]


def waiting(number: int) -> list[KubeObject]:
    return [each for queue_number in range(number) for each in job(f"j{queue_number}", queue=f"q{queue_number}")]


def test_a_failure_is_remembered_only_where_somebody_alike_is_still_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[str] = []
    real = FailedJobs.add
    monkeypatch.setattr(FailedJobs, "add", noting(added, real, lambda _, state: state.job.key.name))
    decisions = decided(*lonely_jobs(5))
    assert decisions.searches.tried["preempt"] == 5
    # Of consolidation, whose jobs are all alike; queues are alone with their job in the other actions.
    assert added == ["j0"]


def test_queues_are_ranked_once_for_actions_that_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []
    real = QueueRanks.rank
    monkeypatch.setattr(QueueRanks, "rank", noting(ranked, real, lambda _, row, *change: row))
    decided(*lonely_jobs(50))
    assert len(ranked) == 50


def test_shared_gpus_fill_up_without_a_look_at_scores_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[int] = []
    real = ClassView._score_one
    monkeypatch.setattr(ClassView, "_score_one", noting(scored, real, lambda _, row: row))
    names = [f"j{number:02}" for number in range(16)]
    pods = [pod(name).shares_gpu(0.25).of_group(name).build() for name in names]
    decisions = decided(node("n1", gpus=2), node("n2", gpus=2), queue("q", quota=4), *map(pod_group, names), *pods)
    assert len(decisions.binds) == 16
    assert len(scored) == 3  # after each GPU that is full, but for the last
