"""The rules that property tests rest on notice a decision that breaks them; otherwise green would mean nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bosket.api.core.node import Node
from bosket.api.kai import SubGroup
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline, Waiting
from bosket.scheduler.model.snapshot import Snapshot
from bosket.testing.build import cordoned, gang, node, pod, pod_group, queue, tainted
from bosket.testing.cluster import NOW, snapshot_of
from tests.present import present
from tests.scheduler import rules
from tests.scheduler.longrun import Story

#: Room for one pod on the node, for none in the queue.
FULL = (
    node("n", gpus=1),
    queue("q", limit=1, quota=0),
    pod_group("g", min_member=2, preemptibility="non-preemptible"),
    gang("g", 3),
)


def binds(snapshot: Snapshot, *names: str, node: str = "n") -> Decisions:
    """Decisions that bind these pods, whatever the scheduler would say."""
    tasks = {task.key.name: (task, job) for job in snapshot.jobs.values() for task in job.tasks}
    return Decisions(tuple(Bind(*tasks[name], node) for name in names))


@pytest.mark.parametrize(
    ("rule", "bound", "text"),
    [
        (rules.gpus_given_more_than_once, ["g-0", "g-1"], "n gives away 2 whole and 0 shared GPUs"),
        (rules.queues_over_their_limit, ["g-0", "g-1"], "queue q holds 2, its limit is 1"),
        (rules.non_preemptible_work_over_quota, ["g-0"], "queue q holds 1, its quota is 0"),
        (rules.gangs_below_their_minimum, ["g-0"], "its part as a whole is below its minimum"),
        (rules.silent_jobs, ["g-0", "g-1"], "default/g has 1 pods left over, and nothing is said about it"),
        (rules.pods_decided_on_wrongly, ["g-0", "g-0"], "default/g-0 is placed, and has a place or wants none"),
    ],
)
def test_too_much(rule: Callable[..., Any], bound: Sequence[str], text: str) -> None:
    snapshot = snapshot_of(*FULL)
    found = list(rule(snapshot, binds(snapshot, *bound)))
    assert found
    assert text in found[0]


def test_promises_of_more_than_is_being_released() -> None:
    leaving = pod("leaving").gpu(1).running_on("n").being_deleted_at(NOW).build()
    snapshot = snapshot_of(*FULL, leaving)
    promised = Decisions(
        tuple(Pipeline(bind.task, bind.job, bind.node, "allocate") for bind in binds(snapshot, "g-0", "g-1").binds)
    )
    found = list(rules.gpus_given_more_than_once(snapshot, promised))
    assert found == ["n gives away 2 whole and 0 shared GPUs"]
    assert "counting what goes" in next(rules.gpus_given_more_than_once(snapshot, binds(snapshot, "g-0")))


def test_more_of_a_shared_gpu_than_there_is() -> None:
    members = [pod(f"g-{number}").of_group("g").shares_gpu(0.6).build() for number in range(2)]
    snapshot = snapshot_of(node("n", gpus=2), queue("q"), pod_group("g", min_member=1), members)
    tasks = [(task, job) for job in snapshot.jobs.values() for task in job.tasks]
    together = Decisions(tuple(Bind(task, job, "n", gpu_groups=("same",)) for task, job in tasks))
    apart = Decisions(tuple(Bind(task, job, "n", gpu_groups=(task.key.name,)) for task, job in tasks))
    assert "120 MiB of GPU same of n are given away, counting what goes" in list(
        rules.gpus_given_more_than_once(snapshot, together)
    )
    assert list(rules.gpus_given_more_than_once(snapshot, apart)) == []


def test_more_of_a_resource_than_is_there() -> None:
    snapshot = snapshot_of(
        node("n", cpu="1"),
        queue("q"),
        pod_group("g", min_member=1),
        [pod(f"g-{number}").of_group("g").cpu("1").build() for number in range(2)],
    )
    found = list(rules.nodes_given_more_than_they_have(snapshot, binds(snapshot, "g-0", "g-1")))
    assert "1000 cpu are left on n, 1000 more were bound" in found


def test_a_subgroup_below_its_minimum_in_a_gang_that_is_satisfied() -> None:
    subgroups = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=2))
    members = [pod(name).of_group("g", name[0]).gpu(1).build() for name in ("a-0", "b-0", "b-1")]
    snapshot = snapshot_of(node("n"), queue("q"), pod_group("g", subgroups=subgroups, min_subgroup=1), members)
    assert list(rules.gangs_below_their_minimum(snapshot, binds(snapshot, "a-0"))) == []
    found = list(rules.gangs_below_their_minimum(snapshot, binds(snapshot, "a-0", "b-0")))
    assert "its part b is below its minimum" in found[0]


def test_a_job_that_got_nothing_and_is_told_nothing() -> None:
    snapshot = snapshot_of(*FULL)
    (job,) = snapshot.jobs.values()
    silent = Decisions(waiting=(Waiting(job, (), (), active=False),))
    assert list(rules.silent_jobs(snapshot, silent)) == ["default/g got nothing, and has no reason"]


@pytest.mark.parametrize(
    ("spoiled", "text"),
    [(cordoned(node("n")), "cordoned"), (tainted(node("n"), "t"), "taint"), (node("n", zone="b"), "other labels")],
)
def test_nodes_that_refuse(spoiled: Node, text: str) -> None:
    picky = pod("g-0").of_group("g").only_on("zone", "a").build()
    snapshot = snapshot_of(spoiled, queue("q"), pod_group("g"), picky)
    found = " ".join(rules.pods_on_nodes_that_refuse_them(snapshot, binds(snapshot, "g-0")))
    assert text in found


def test_a_pod_that_is_not_pending() -> None:
    running = pod("g-0").of_group("g").running_on("n").build()
    snapshot = snapshot_of(node("n"), queue("q"), pod_group("g"), running)
    assert list(rules.pods_decided_on_wrongly(snapshot, binds(snapshot, "g-0"))) == [
        "default/g-0 is placed, and has a place or wants none"
    ]


def evictions(snapshot: Snapshot, *names: str, action: str = "reclaim") -> Decisions:
    """Decisions that evict these pods."""
    tasks = {task.key.name: (task, job) for job in snapshot.jobs.values() for task in job.tasks}
    return Decisions(tuple(Eviction(*tasks[name], "n", action, None) for name in names))


def running_gang(**group: Any) -> Snapshot:
    members = [pod(f"g-{number}").gpu(1).of_group("g").running_on("n").build() for number in range(3)]
    return snapshot_of(node("n"), queue("q"), pod_group("g", min_member=2, **group), members)


def test_a_gang_that_loses_more_than_its_extras_and_keeps_some() -> None:
    snapshot = running_gang()
    assert list(rules.gangs_torn_apart(snapshot, evictions(snapshot, "g-0"))) == []
    assert list(rules.gangs_torn_apart(snapshot, evictions(snapshot, "g-0", "g-1", "g-2"))) == []
    assert list(rules.gangs_torn_apart(snapshot, evictions(snapshot, "g-0", "g-1"))) == [
        "evictions left default/g with 1 pods, below its minimum"
    ]


def test_victims_that_are_not_preemptible_or_not_there() -> None:
    firm = running_gang(preemptibility="non-preemptible")
    assert "isn't preemptible" in next(rules.victims_that_may_not_be(firm, evictions(firm, "g-0")))
    assert list(rules.victims_that_may_not_be(firm, evictions(firm, "g-0", action="stalegangeviction"))) == []
    pending = snapshot_of(*FULL[:2], pod_group("g"), gang("g", 1))
    assert list(rules.victims_that_may_not_be(pending, evictions(pending, "g-0"))) == [
        "default/g-0 is evicted, and has no place"
    ]


def places_taken(snapshot: Snapshot, *pairs: str) -> Decisions:
    """Decisions by which the first of each pair evicts the second."""
    jobs = {job.key.name: job for job in snapshot.jobs.values()}
    tasks = {name: next(iter(job.tasks)) for name, job in jobs.items()}
    return Decisions(
        tuple(
            Eviction(tasks[victim], jobs[victim], "n", "reclaim", jobs[preemptor])
            for preemptor, victim in map(tuple, pairs)
        )
    )


def jobs_on_one_node(*names: str) -> Snapshot:
    running = [pod(f"{name}-0").of_group(name).gpu(1).running_on("n").build() for name in names]
    return snapshot_of(node("n"), queue("q"), [pod_group(name) for name in names], running)


@pytest.mark.parametrize("pairs", [["ba", "ab"], ["ba", "cb", "ac"]], ids=["two jobs", "through a third"])
def test_jobs_that_take_the_place_of_one_another_in_different_cycles(pairs: Sequence[str]) -> None:
    story, snapshot = Story(), jobs_on_one_node(*"abc")
    for pair in pairs:
        assert story.circle() is None
        story.note_places_taken(snapshot, places_taken(snapshot, pair))
    assert [each.name for each in present(story.circle())] in (["a", "b", "a"], ["a", "c", "b", "a"])


def test_a_job_that_has_ended_is_in_no_circle() -> None:
    story, snapshot = Story(), jobs_on_one_node(*"abc")
    story.note_places_taken(snapshot, places_taken(snapshot, "ba", "cb"))
    later = jobs_on_one_node(*"ac")
    story.note_places_taken(later, places_taken(later, "ac"))
    assert story.circle() is None
    story.note_places_taken(later, places_taken(later, "ca"))
    assert [each.name for each in present(story.circle())] == ["a", "c", "a"]
