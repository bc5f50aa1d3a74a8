"""Running jobs move closer together so that another one fits, if everything that moves has a new place."""

from typing import Any

from bosket.api.object import KubeObject
from bosket.scheduler.decide import decide
from bosket.testing.build import job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, configured, decided, evictions, pipelines, placements, snapshot_of, state_of

CONSOLIDATE = configured("allocate", "consolidation")


def test_a_fragmented_cluster_is_put_together_for_a_job_that_needs_a_whole_node() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        job("a", on="n1"),
        job("b", on="n2"),
        job("new", gpus=2),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {"b-0": "new"}, "the younger one moves"
    assert pipelines(decisions) == {"new-0": "n2", "b-0": "n1"}
    assert placements(decisions) == {}
    assert {each.action for each in decisions.evictions} == {"consolidation"}


def test_nobody_moves_when_one_of_those_that_must_has_no_place() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=3)],
        queue("q"),
        job("a", gpus=1, on="n1"),
        job("b", gpus=2, on="n2"),
        job("new", gpus=3),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}, "2 + 1 GPUs are free, but b fits nowhere else"


def test_of_a_gang_those_stay_that_fit_where_they_were() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=1)],
        queue("q"),
        job("new", gpus=2),
        job("a", 2, on=["n1", "n2"]),
        job("b", on="n2"),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {"a-0": "new"}
    assert pipelines(decisions) == {"new-0": "n1", "a-0": "n3"}


def test_moving_makes_no_gpus_so_there_must_be_enough_already() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        [*job("a", on="n1"), *job("b", on="n2"), *job("c", on="n2")],
        job("new", gpus=2),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}


def test_gpus_of_nodes_that_take_no_pods_do_not_count() -> None:
    import msgspec

    cordoned = node("n3", gpus=8)
    cordoned = msgspec.structs.replace(cordoned, spec=msgspec.structs.replace(cordoned.spec, unschedulable=True))
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2), cordoned],
        queue("q"),
        [*job("a", on="n1"), *job("b", on="n2"), *job("c", on="n2")],
        job("new", gpus=2),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}


def test_only_preemptible_jobs_have_others_moved() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        [*job("a", on="n1"), *job("b", on="n2")],
        job("new", gpus=2, preemptibility="non-preemptible"),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}


def test_non_preemptible_jobs_are_never_moved() -> None:
    firm: dict[str, Any] = {"preemptibility": "non-preemptible"}
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        [*job("a", on="n1", **firm), *job("b", on="n2", **firm)],
        job("new", gpus=2),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}


def test_jobs_of_any_queue_and_of_higher_priority_are_moved() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        [queue("q"), queue("other")],
        [priority_class("low", 10), priority_class("high", 90)],
        job("a", on="n1", queue="other", priority="high"),
        job("b", on="n2", priority="high"),
        job("new", gpus=2, priority="low"),
        configuration=CONSOLIDATE,
    )
    assert len(evictions(decisions)) == 1


def test_a_job_is_moved_to_where_it_may_run() -> None:
    """`a` may only be on n1, so it is `b` that moves."""
    pinned = pod("a-0").gpu(1).of_group("a").only_on("kubernetes.io/hostname", "n1").running_on("n1").build()
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=2)],
        queue("q"),
        [pod_group("a"), pinned],
        job("b", on="n2"),
        job("new", gpus=2),
        configuration=CONSOLIDATE,
    )
    assert pipelines(decisions) == {"new-0": "n2", "b-0": "n1"}


def test_cpu_is_put_together_as_well() -> None:
    decisions = decided(
        [node("n1", gpus=0, cpu="8"), node("n2", gpus=0, cpu="8")],
        queue("q"),
        [pod_group("a"), pod("a-0").cpu("4").of_group("a").running_on("n1").build()],
        [pod_group("b"), pod("b-0").cpu("4").of_group("b").running_on("n2").build()],
        [pod_group("new"), pod("new-0").cpu("6").of_group("new").build()],
        configuration=CONSOLIDATE,
    )
    assert pipelines(decisions) == {"new-0": "n2", "b-0": "n1"}


def test_a_job_does_not_move_its_own_pods_for_itself() -> None:
    decisions = decided(
        [node("n1", gpus=2), node("n2", gpus=1)],
        queue("q"),
        pod_group("a"),
        pod("a-0").gpu(1).of_group("a").running_on("n1").build(),
        pod("a-1").gpu(2).of_group("a").build(),
        configuration=CONSOLIDATE,
    )
    assert evictions(decisions) == {}


def two_halves() -> list[KubeObject]:
    """Two jobs that have half a GPU each, on different ones."""
    made = []
    for name in ("a", "b"):
        running = pod(name).of_group(name).shares_gpu(0.5).running_on("n").in_gpu_groups(f"of-{name}")
        made += [pod_group(name), running.build()]
    return made


def test_pods_that_share_gpus_move_together_to_free_a_whole_one() -> None:
    snapshot = snapshot_of(node("n", gpus=2), queue("q"), two_halves(), job("whole"))
    decisions = decide(snapshot, configured("consolidation"))
    assert len(evictions(decisions)) == 1
    assert pipelines(decisions)["whole-0"] == "n"
    (moved,) = [each for each in decisions.pipelined if each.task.pod_class.share is not None]
    (stays,) = {"a", "b"} - set(evictions(decisions))
    assert moved.gpu_groups == (f"of-{stays}",)


def test_the_gpu_that_a_pod_is_moved_to_is_kept_for_it() -> None:
    state = state_of([node("n", gpus=2), queue("q"), *two_halves(), *job("whole")])
    decisions = decide(state.snapshot(NOW), configured("consolidation"))
    state.remember(decisions, NOW)
    (moved,) = decisions.lasting_evictions
    state.drop(moved.task.pod)
    for each in (pod_group("late"), pod("late").of_group("late").shares_gpu(0.5).build()):
        state.put(each)
    later = decide(state.snapshot(NOW + 1), configured("allocate"))
    assert placements(later) == {"whole-0": "n"}  # and what is left of the other GPU waits for the one that was moved
