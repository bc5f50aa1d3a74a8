"""What is said about pod groups and topologies when they are written."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.kai import PodGroup, PodGroupSpec, SubGroup, Topology, TopologyLevel, TopologySpec
from bosket.api.object import ObjectMeta
from bosket.runtime.webhook.verdict import Verdict
from bosket.services.admission import podgroup, topology


def group(*subgroups: SubGroup, **spec: Any) -> PodGroup:
    return PodGroup(metadata=ObjectMeta(name="g"), spec=PodGroupSpec(queue="q", subGroups=subgroups, **spec))


def sub(name: str, parent: str | None = None, **minimum: int) -> SubGroup:
    return SubGroup(name=name, parent=parent, **minimum)  # type: ignore[arg-type]


TREE = (sub("master", minMember=1), sub("workers", minSubGroup=1), sub("w0", "workers", minMember=4))


@pytest.mark.parametrize("good", [group(), group(minMember=0), group(*TREE), group(*TREE, minSubGroup=2)])
@pytest.mark.parametrize("is_update", [False, True])
def test_is_admitted(good: PodGroup, is_update: bool) -> None:
    assert podgroup.check(good, is_update=is_update) == Verdict()


@pytest.mark.parametrize(
    ("bad", "field", "words"),
    [
        (
            group(minMember=1, minSubGroup=1),
            "spec.minMember",
            "minMember and minSubGroup are mutually exclusive: set minMember (1) to schedule",
        ),
        (
            group(sub("a", minMember=1, minSubGroup=1)),
            "spec.subGroups[0]",
            'subgroup "a": minMember and minSubGroup are',
        ),
        (group(sub("a", minMember=1), sub("a", minMember=1)), "spec.subGroups", "duplicate subgroup name a"),
        (group(sub("a", "x", minMember=1)), "spec.subGroups[0].parent", "parent x of a was not found"),
        (group(sub("a", "a")), "spec.subGroups[0].parent", "cycle detected in subgroups"),
        (
            group(sub("a", minSubGroup=1)),
            "spec.subGroups[0].minSubGroup",
            'subgroup "a": minSubGroup cannot be set on a leaf SubGroup',
        ),
        (group(sub("a")), "spec.subGroups[0].minMember", "subgroup a: minMember is required"),
    ],
)
@pytest.mark.parametrize("is_update", [False, True])
def test_is_refused(bad: PodGroup, field: str, words: str, is_update: bool) -> None:
    refusal = podgroup.check(bad, is_update=is_update).refusals[0]
    assert refusal.field == field
    assert words in refusal.message


def test_each_member_of_a_circle_is_named_and_those_beside_it_are_not() -> None:
    circle = group(sub("a", "b"), sub("b", "a"), sub("c", "a", minMember=1))
    refusals = podgroup.check(circle, is_update=False).refusals
    assert [each.field for each in refusals] == ["spec.subGroups[0].parent", "spec.subGroups[1].parent"]


def test_a_minimum_of_pods_above_sub_groups_may_stay_but_not_come() -> None:
    odd = group(sub("a", minMember=3), sub("b", "a", minMember=1))
    (refusal,) = podgroup.check(odd, is_update=False).refusals
    verdict = podgroup.check(odd, is_update=True)
    assert verdict == Verdict(warnings=(refusal.message,))


@pytest.mark.parametrize(
    ("odd", "warning"),
    [
        (group(*TREE, minSubGroup=5), "minSubGroup (5) exceeds the number of direct child SubGroups (2)"),
        (
            group(sub("a", minSubGroup=2), sub("b", "a", minMember=1)),
            'subgroup "a": minSubGroup (2) exceeds the number of direct child SubGroups (1)',
        ),
    ],
)
def test_a_minimum_above_what_there_is_is_a_warning(odd: PodGroup, warning: str) -> None:
    assert podgroup.check(odd, is_update=False) == Verdict(warnings=(warning,))


def test_a_pod_group_that_is_going_is_not_judged() -> None:
    going = PodGroup(metadata=ObjectMeta(name="g", deletionTimestamp="2026-01-01T00:00:00Z"), spec=group(sub("a")).spec)
    assert podgroup.check(going, is_update=True) == Verdict()


def levels(*pairs: tuple[str, str | None]) -> Topology:
    made = tuple(TopologyLevel(nodeLabel=label, alias=alias) for label, alias in pairs)
    return Topology(metadata=ObjectMeta(name="t"), spec=TopologySpec(levels=made))


def test_aliases_of_their_own_are_admitted() -> None:
    assert topology.check(levels(("x/zone", "zone"), ("x/rack", "rack"), ("x/host", None))) == Verdict()


def test_an_alias_stands_for_one_level() -> None:
    refusals = topology.check(levels(("x/zone", "a"), ("x/rack", "a"))).refusals
    assert [each.field for each in refusals] == ["spec.levels[0].alias", "spec.levels[1].alias"]
    assert "give each its own" in refusals[0].message


def test_an_alias_is_no_label() -> None:
    (refusal,) = topology.check(levels(("x/zone", "x/rack"), ("x/rack", None))).refusals
    assert 'alias "x/rack" is the nodeLabel of a level' in refusal.message
