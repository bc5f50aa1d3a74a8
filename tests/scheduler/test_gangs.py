"""All of the minimum or nothing; extras one by one."""

from dataclasses import replace

from bosket.api.kai import SubGroup
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, placements, reasons


def test_a_gang_that_fits_is_bound_as_a_whole() -> None:
    decisions = decided(node("n1"), queue("q"), pod_group("g", min_member=4), gang("g", 4))
    assert placements(decisions) == {f"g-{i}": "n1" for i in range(4)}
    assert [job.key.name for job in decisions.started] == ["g"]


def test_a_gang_that_does_not_fit_binds_nothing_and_says_how_many_would_have() -> None:
    decisions = decided(node("n1", gpus=3), queue("q"), pod_group("g", min_member=4), gang("g", 4))
    assert placements(decisions) == {}
    assert reasons(decisions)["g"].startswith(
        "Resources were found for 3 pods while 4 are required for gang scheduling."
    )
    assert "1 node(s) didn't have enough resources: GPUs." in reasons(decisions)["g"]


def test_a_gang_that_fails_leaves_its_room_to_the_next() -> None:
    decisions = decided(
        node("n1", gpus=3),
        queue("q"),
        [pod_group("big", min_member=4), pod_group("small", min_member=3)],
        gang("big", 4),
        gang("small", 3),
    )
    assert set(placements(decisions)) == {"small-0", "small-1", "small-2"}


def test_a_gang_whose_pods_are_not_all_there_waits() -> None:
    decisions = decided(node("n1"), queue("q"), pod_group("g", min_member=4), gang("g", 3))
    assert placements(decisions) == {}
    assert reasons(decisions)["g"] == (
        "Job is not ready for scheduling. Waiting for 4 pods, currently 3 exist, 0 are gated"
    )


def test_gated_pods_do_not_complete_a_gang() -> None:
    members = [*gang("g", 3), pod("g-3").gpu(1).of_group("g").gated_by("wait").build()]
    decisions = decided(node("n1"), queue("q"), pod_group("g", min_member=4), members)
    assert placements(decisions) == {}
    assert "currently 4 exist, 1 are gated" in reasons(decisions)["g"]


def test_extras_are_placed_as_far_as_there_is_room() -> None:
    decisions = decided(node("n1", gpus=3), queue("q"), pod_group("g", min_member=2), gang("g", 5))
    assert len(placements(decisions)) == 3


def test_the_minimum_of_every_gang_comes_before_extras_of_any() -> None:
    decisions = decided(
        node("n1", gpus=4),
        queue("q"),
        [pod_group("a", min_member=2), pod_group("b", min_member=2)],
        gang("a", 4),
        gang("b", 2),
    )
    assert sorted(placements(decisions)) == ["a-0", "a-1", "b-0", "b-1"]


def test_sub_groups_each_reach_their_own_minimum_or_nothing_is_bound() -> None:
    subgroups = (SubGroup(name="leader", minMember=1), SubGroup(name="workers", minMember=3))
    members = [pod("lead").gpu(1).of_group("g", "leader").build()]
    members += [pod(f"w-{i}").gpu(1).of_group("g", "workers").build() for i in range(3)]
    group = pod_group("g", subgroups=subgroups)
    assert len(placements(decided(node("n1", gpus=4), queue("q"), group, members))) == 4
    short = decided(node("n1", gpus=3), queue("q"), group, members)
    assert placements(short) == {}
    assert "of sub-group workers" in reasons(short)["g"]


def test_a_pod_of_an_unknown_sub_group_is_set_aside_and_the_others_run() -> None:
    members = [*gang("g", 2), pod("lost").gpu(1).of_group("g", "nowhere").build()]
    decisions = decided(node("n1"), queue("q"), pod_group("g", min_member=2), members)
    assert sorted(placements(decisions)) == ["g-0", "g-1"]
    assert [task.key.name for waiting in decisions.waiting for task in waiting.job.orphan_tasks] == ["lost"]


def test_a_gang_that_needs_what_is_being_released_waits_as_a_whole() -> None:
    leaving = pod("old").gpu(2).running_on("n1").being_deleted_at(NOW).build()
    decisions = decided(node("n1", gpus=4), queue("q"), pod_group("g", min_member=4), gang("g", 4), leaving)
    assert placements(decisions) == {}
    assert len(decisions.pipelined) == 4


def test_a_pod_that_should_long_be_gone_promises_nothing() -> None:
    leaving = pod("old").gpu(2).running_on("n1").being_deleted_at(NOW - 200).build()
    decisions = decided(node("n1", gpus=4), queue("q"), pod_group("g", min_member=4), gang("g", 4), leaving)
    assert not decisions.binds
    assert not decisions.pipelined


def test_of_sub_groups_of_which_one_is_enough_the_one_with_all_its_pods_is_taken() -> None:
    subgroups = (SubGroup(name="a", minMember=2), SubGroup(name="b", minMember=1))
    group = pod_group("g", subgroups=subgroups, min_subgroup=1)
    of_a, of_b = pod("a-0").gpu(1).of_group("g", "a").build(), pod("b-0").gpu(1).of_group("g", "b").build()
    assert placements(decided(node("n1"), queue("q"), group, of_a, of_b)).keys() >= {"b-0"}
    assert placements(decided(node("n1"), queue("q"), group, of_b)) == {"b-0": "n1"}


def test_a_minimum_of_more_sub_groups_than_there_are_is_named() -> None:
    group = pod_group("g", subgroups=(SubGroup(name="a", minMember=1),), min_subgroup=5)
    decisions = decided(node("n1"), queue("q"), group, pod("a-0").gpu(1).of_group("g", "a").build())
    assert placements(decisions) == {}
    assert "spec.minSubGroup is 5, there are 1 sub-groups" in reasons(decisions)["g"]


def test_what_is_left_of_a_gang_does_not_wait_for_members_that_succeeded() -> None:
    done = [replace(pod(f"g-{i}").gpu(1).of_group("g").running_on("n1"), phase="Succeeded").build() for i in range(2)]
    left = [pod(f"g-{i}").gpu(1).of_group("g").build() for i in (2, 3)]
    decisions = decided(node("n1", gpus=2), queue("q"), pod_group("g", min_member=4), done, left)
    assert set(placements(decisions)) == {"g-2", "g-3"}
    short = decided(node("n1", gpus=1), queue("q"), pod_group("g", min_member=4), done, left)
    assert placements(short) == {}
