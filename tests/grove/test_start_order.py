"""What a PodClique waits for."""

from __future__ import annotations

from bosket.api.grove import PodCliqueScalingGroup, PodCliqueSet
from bosket.grove.render.clique import member_clique, scaling_group, standalone_clique
from bosket.grove.render.pod import InitProgram, render_pod
from bosket.grove.render.template import groups_of, template_named
from tests.grove.sets import clique, clique_set, group

IN_ORDER = "CliqueStartupTypeInOrder"
EXPLICIT = "CliqueStartupTypeExplicit"


def _standalone(owner: PodCliqueSet, name: str) -> tuple[str, ...]:
    template = template_named(owner, name)
    assert template is not None
    return standalone_clique(owner, 0, template, None).spec.startsAfter


def _member(owner: PodCliqueSet, name: str, replica: int) -> tuple[str, ...]:
    template = template_named(owner, name)
    assert template is not None
    return member_clique(owner, _group(owner), replica, template, None).spec.startsAfter


def _group(owner: PodCliqueSet) -> PodCliqueScalingGroup:
    return scaling_group(owner, 0, next(groups_of(owner, 0)), None)


def test_in_any_order_nothing_is_waited_for_whatever_the_clique_says() -> None:
    owner = clique_set("s", clique("a"), clique("b", after=["a"]))
    assert _standalone(owner, "b") == ()


def test_in_order_each_clique_waits_for_the_one_before() -> None:
    owner = clique_set("s", clique("a"), clique("b"), clique("c"), cliqueStartupType=IN_ORDER)
    assert [_standalone(owner, each) for each in "abc"] == [(), ("s-0-a",), ("s-0-b",)]


def test_a_clique_waits_for_all_members_of_a_group_that_are_in_the_base_gang() -> None:
    groups = [group("g", "a", replicas=3, minimum=2)]
    owner = clique_set("s", clique("a"), clique("b"), groups=groups, cliqueStartupType=IN_ORDER)
    assert _standalone(owner, "b") == ("s-0-g-0-a", "s-0-g-1-a")


def test_a_scaled_gang_keeps_order_inside_its_own_replica_alone() -> None:
    groups = [group("g", "b", "c", replicas=2)]
    cliques = clique("a"), clique("b", after=["a"]), clique("c", after=["a", "b"])
    owner = clique_set("s", *cliques, groups=groups, cliqueStartupType=EXPLICIT)
    assert _member(owner, "c", 0) == ("s-0-a", "s-0-g-0-b")
    assert _member(owner, "c", 1) == ("s-0-g-1-b",)
    assert _member(owner, "b", 1) == ()


def test_the_init_container_runs_what_the_operator_was_told() -> None:
    owner = clique_set("s", clique("a", 2), clique("b"), cliqueStartupType=IN_ORDER)
    template = template_named(owner, "b")
    assert template is not None
    waiting = standalone_clique(owner, 0, template, None)
    program = InitProgram("bosket:1", ("bosket", "run", "grove-initc"))
    (container,) = render_pod(owner, waiting, 0, init_program=program, prepare=lambda pod: pod).spec.initContainers
    assert (container.image, container.command, container.args) == (*program, ("--podcliques=s-0-a:2",))
