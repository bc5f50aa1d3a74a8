"""Victims are found by whatever is short: CPU on a cluster without GPUs, places for pods, nothing at all."""

from typing import Any

import pytest

from bosket.api.kai import QueueResource
from bosket.api.object import KubeObject
from bosket.testing.build import job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import configured, decided, evictions, pipelines, reasons

CLASSES = [priority_class("low", 10), priority_class("high", 90)]
NOTHING = QueueResource(quota=0, limit=-1, overQuotaWeight=0)
WHERE = {"reclaim": "theirs", "preempt": "mine"}


def cpu_job(name: str, size: int, cores: int, *, on: str = "", **group: Any) -> list[KubeObject]:
    members = [pod(f"{name}-{i}").cpu(str(cores)).of_group(name) for i in range(size)]
    return [
        pod_group(name, min_member=size, **group),
        *(each.running_on(on).build() if on else each.build() for each in members),
    ]


def short_of_cpu(action: str, *pending: Any) -> Any:
    """Two nodes of 4 cores, full of jobs of 2 cores each, without a GPU anywhere."""
    where = {"queue": WHERE[action], "priority": "low"}
    return decided(
        [node(f"n{i}", gpus=0, cpu="4") for i in range(2)],
        [queue("mine"), queue("theirs", cpu=NOTHING)],
        CLASSES,
        [each for i in range(4) for each in cpu_job(f"old{i}", 1, 2, on=f"n{i % 2}", **where)],
        *pending,
        configuration=configured("allocate", action),
    )


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_job_takes_cores_where_there_are_no_gpus(action: str) -> None:
    decisions = short_of_cpu(action, cpu_job("new", 1, 4, queue="mine", priority="high"))
    assert sorted(evictions(decisions)) == ["old1-0", "old3-0"]
    assert pipelines(decisions) == {"new-0": "n1"}


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_gang_takes_cores_of_several_nodes(action: str) -> None:
    decisions = short_of_cpu(action, cpu_job("new", 2, 4, queue="mine", priority="high"))
    assert len(evictions(decisions)) == 4
    assert sorted(pipelines(decisions).values()) == ["n0", "n1"]


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_pod_that_asks_for_nothing_takes_the_place_of_another_where_places_are_short(action: str) -> None:
    decisions = decided(
        node("n1", gpus=1, pods=1),
        [queue("mine", quota=1), queue("theirs", quota=0, weight=0)],
        CLASSES,
        job("old", on="n1", queue=WHERE[action], priority="low"),
        job("new", gpus=0, queue="mine", priority="high"),
        configuration=configured("allocate", action),
    )
    assert evictions(decisions) == {"old-0": "new"}


def test_without_any_node_nobody_is_looked_for() -> None:
    decisions = decided(
        [queue("mine", quota=1), queue("theirs", quota=0, weight=0)],
        job("old", on="gone", queue="theirs"),
        job("new", queue="mine"),
        configuration=configured("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"),
    )
    assert decisions.operations == ()
    assert "new" in reasons(decisions)
