"""Pods for which somebody has chosen a node go there, if they can."""

from bosket.api.core.pod import Pod
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided, placements


def member(nominated: str, name: str = "g-0") -> Pod:
    return pod(name).gpu(1).of_group("g").nominated_to(nominated).build()


def test_the_nominated_node_is_better_than_all_others() -> None:
    busy = pod("busy").gpu(4).running_on("n1").build()
    decisions = decided(queue("q"), pod_group("g"), node("n1"), node("n2"), node("n3"), busy, member("n3"))
    assert placements(decisions) == {"g-0": "n3"}


def test_a_nominated_node_that_is_full_or_unknown_is_no_hindrance() -> None:
    full = pod("full").gpu(8).running_on("n2").build()
    for nominated in ("n2", "gone"):
        decisions = decided(queue("q"), pod_group("g"), node("n1"), node("n2"), full, member(nominated))
        assert placements(decisions) == {"g-0": "n1"}


def test_each_member_of_a_gang_has_its_own() -> None:
    members = [member("n2", "g-0"), member("", "g-1"), member("n3", "g-2")]
    decisions = decided(queue("q"), pod_group("g", min_member=3), [node(f"n{i}") for i in "123"], members)
    assert placements(decisions)["g-0"] == "n2"
    assert placements(decisions)["g-2"] == "n3"
