"""Sub-groups that lack pods: they get none, with a reason, and the rest of their gang does as it may."""

from bosket.api.core.pod import Pod
from bosket.api.kai import SubGroup
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided, placements


def member(name: str, subgroup: str) -> Pod:
    return pod(name).of_group("g", subgroup).gpu(1).build()


def test_a_subgroup_with_too_few_pods_gets_none_while_its_sibling_runs() -> None:
    subgroups = (SubGroup(name="a", minMember=1), SubGroup(name="b", minMember=2))
    group = pod_group("g", subgroups=subgroups, min_subgroup=1)
    assert placements(decided(node("n"), queue("q"), group, member("a-0", "a"), member("b-0", "b"))) == {"a-0": "n"}


def test_a_set_of_subgroups_with_too_few_complete_children_gets_nothing() -> None:
    subgroups = (
        SubGroup(name="a", minMember=1),
        SubGroup(name="b", minSubGroup=2),
        SubGroup(name="b1", parent="b", minMember=1),
        SubGroup(name="b2", parent="b", minMember=1),
    )
    group = pod_group("g", subgroups=subgroups, min_subgroup=1)
    assert placements(decided(node("n"), queue("q"), group, member("a-0", "a"), member("b-0", "b1"))) == {"a-0": "n"}


def test_an_only_child_with_too_few_pods_gets_none_though_nobody_asks_for_it() -> None:
    subgroups = (SubGroup(name="a", minSubGroup=0), SubGroup(name="a1", parent="a", minMember=2))
    group = pod_group("g", subgroups=subgroups)
    assert placements(decided(node("n"), queue("q"), group, member("a-0", "a1"))) == {}


def test_a_pod_of_an_incomplete_subgroup_is_told_what_is_missing() -> None:
    subgroups = (
        SubGroup(name="a"),
        SubGroup(name="b", minSubGroup=1),
        SubGroup(name="b1", parent="b", minMember=1),
        SubGroup(name="b2", parent="b", minMember=2),
    )
    group = pod_group("g", subgroups=subgroups, min_subgroup=1)
    decisions = decided(node("n"), queue("q"), group, member("p", "b2"))
    assert not decisions.binds
    (waiting,) = decisions.waiting
    assert "for SubGroup b" in waiting.text
