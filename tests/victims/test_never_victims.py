"""Who is never evicted for others, and what isn't torn apart."""

from typing import Any

import pytest

from bosket.api.object import KubeObject
from bosket.testing.build import job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, Objects, configured, decided, evictions, pipelines

ACTIONS = ("consolidation", "reclaim", "preempt")
QUEUES = [queue("mine", quota=4), queue("theirs", quota=0, weight=0)]
CLASSES = [priority_class("low", 10), priority_class("high", 90)]
#: For each action: where a victim would have to be, so that only what is tested keeps it from going.
WHERE = {"consolidation": "theirs", "reclaim": "theirs", "preempt": "mine"}


def evicted(action: str, *objects: Objects) -> set[Any]:
    new = job("new", gpus=2, queue="mine", priority="high")
    return set(evictions(decided(QUEUES, CLASSES, *objects, new, configuration=configured("allocate", action))))


def small(on: str, **group: Any) -> list[KubeObject]:
    """One job of one GPU."""
    return job(f"on-{on}", on=on, priority="low", **group)


@pytest.mark.parametrize("action", ACTIONS)
def test_somebody_goes_if_nothing_speaks_against_it(action: str) -> None:
    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    assert len(evicted(action, nodes, small("n1", queue=WHERE[action]), small("n2", queue=WHERE[action]))) == 1


@pytest.mark.parametrize("action", ACTIONS)
def test_non_preemptible_jobs_stay(action: str) -> None:
    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    firm = {"queue": WHERE[action], "preemptibility": "non-preemptible"}
    assert evicted(action, nodes, small("n1", **firm), small("n2", **firm)) == set()


@pytest.mark.parametrize("action", ACTIONS)
def test_pods_of_other_schedulers_stay(action: str) -> None:
    from dataclasses import replace

    nodes = [node("n1", gpus=2), node("n2", gpus=2)]
    others = [replace(pod(f"x{on}").gpu(1).running_on(on), scheduler="default").build() for on in ("n1", "n2")]
    assert evicted(action, nodes, others) == set()


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_being_deleted_is_waited_for_not_evicted(action: str) -> None:
    """n1 becomes free by itself: the new job is placed there right away, and waits."""
    leaving = pod("x").gpu(1).of_group("g").running_on("n1").being_deleted_at(NOW).build()
    group = pod_group("g", queue=WHERE[action], priority="low")
    assert evicted(action, node("n1", gpus=2), group, leaving) == set()


@pytest.mark.parametrize("action", ACTIONS)
def test_a_gang_with_a_member_on_a_node_of_another_shard_stays_whole(action: str) -> None:
    """Evicting its members here would break it, and nobody here may touch the one there."""
    nodes = [node("n1", gpus=2), node("n2", gpus=1)]
    mixed = job("gang", 2, on=["n1", "elsewhere"], queue=WHERE[action], priority="low")
    assert evicted(action, nodes, mixed) == set()


@pytest.mark.parametrize("action", ACTIONS)
def test_extras_here_go_though_the_rest_of_their_job_is_on_another_shards_nodes(action: str) -> None:
    nodes = [node("n1", gpus=2), node("n2", gpus=1)]
    mixed = job("g", 2, min_member=1, on=["elsewhere", "n1"], queue=WHERE[action], priority="low")
    assert evicted(action, nodes, mixed) == {"g-1"}


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_a_gang_goes_as_a_whole_wherever_its_pods_are(action: str) -> None:
    """Only what is on n1 is in the way; n2 is too small for the new job."""
    nodes = [node("n1", gpus=2), node("n2", gpus=1)]
    spread = job("gang", 3, on=["n1", "n1", "n2"], queue=WHERE[action], priority="low")
    assert evicted(action, nodes, spread) == {"gang-0", "gang-1", "gang-2"}


def test_a_job_whose_queue_is_gone_is_left_alone() -> None:
    decisions = decided(
        node("n1", gpus=2),
        queue("mine", quota=2),
        job("lost", 2, on="n1", queue="gone"),
        job("new", gpus=2, queue="mine"),
        configuration=configured("allocate", "consolidation", "reclaim", "preempt"),
    )
    assert evictions(decisions) == {}
    assert pipelines(decisions) == {}
