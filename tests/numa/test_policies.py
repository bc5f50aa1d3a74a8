"""Which zones a kubelet gives a pod, by policy and scope; on random zones, compared with trying everything."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.scheduler.model.numa import Named, NumaNeeds, NumaZones, Policy, Scope
from bosket.scheduler.plugins.numa.fit import Demand, Given, fit

RESOURCES = ("cpu", "gpu")


def zones(policy: Policy, *amounts: tuple[int, ...], scope: Scope = Scope.POD) -> NumaZones:
    names = RESOURCES[: len(amounts[0])]
    ids = tuple(f"node-{number}" for number in range(len(amounts)))
    return NumaZones(policy, scope, ids, names, names, amounts, amounts)


def named(*amounts: int) -> Named:
    return tuple((name, amount) for name, amount in zip(RESOURCES, amounts, strict=False) if amount)


def given_to(
    of: NumaZones,
    *containers: tuple[int, ...],
    init: tuple[tuple[int, ...], ...] = (),
    free: tuple[tuple[int, ...], ...] | None = None,
) -> Given | None:
    """What a pod gets whose containers ask for these amounts."""
    total = tuple(map(sum, zip(*containers, strict=True)))
    needs = NumaNeeds(
        True, named(*total), tuple(named(*each) for each in containers), tuple(named(*each) for each in init)
    )
    return fit(of, of.allocatable if free is None else free, Demand.of(needs, of, tuple(range(len(of.names)))))


def test_single_gives_the_lowest_zone_that_has_everything() -> None:
    node = zones(Policy.SINGLE, (4, 1), (4, 2), (8, 2))
    assert given_to(node, (4, 1)) == ((0, (4, 1)),)
    assert given_to(node, (4, 2)) == ((1, (4, 2)),)
    assert given_to(node, (5, 2)) == ((2, (5, 2)),)
    assert given_to(node, (9, 0)) is None
    assert given_to(node, (1, 3)) is None


def test_restricted_spreads_over_as_few_zones_as_the_request_takes_on_an_empty_node() -> None:
    node = zones(Policy.RESTRICTED, (4,), (4,), (4,))
    assert given_to(node, (6,)) == ((0, (4,)), (1, (2,)))
    assert given_to(node, (6,), free=((1,), (4,), (4,))) == ((1, (4,)), (2, (2,)))
    assert given_to(node, (6,), free=((4,), (1,), (1,))) is None  # three zones would do, but two could have
    assert given_to(node, (3,), free=((2,), (2,), (2,))) is None
    assert given_to(node, (13,)) is None


def test_restricted_refuses_resources_that_take_different_numbers_of_zones() -> None:
    node = zones(Policy.RESTRICTED, (4, 2), (4, 2))
    assert given_to(node, (6, 1)) is None
    assert given_to(node, (6, 3)) == ((0, (4, 2)), (1, (2, 1)))
    assert given_to(node, (2, 1)) == ((0, (2, 1)),)


def test_best_effort_takes_the_zones_that_cover_the_most() -> None:
    node = zones(Policy.BEST_EFFORT, (2,), (4,), (3,))
    assert given_to(node, (4,)) == ((1, (4,)),)
    assert given_to(node, (7,)) == ((1, (4,)), (2, (3,)))
    assert given_to(node, (10,)) is None


def test_a_pod_that_asks_zones_for_nothing_is_given_nothing_and_taken() -> None:
    for policy in (Policy.SINGLE, Policy.RESTRICTED, Policy.BEST_EFFORT):
        assert given_to(zones(policy, (4, 1)), (0, 0)) == ()


def test_by_container_each_one_may_have_a_zone_of_its_own() -> None:
    apart = zones(Policy.SINGLE, (4,), (4,), scope=Scope.CONTAINER)
    assert given_to(apart, (3,), (3,)) == ((0, (3,)), (1, (3,)))
    assert given_to(apart, (3,), (3,), (2,)) is None
    assert given_to(zones(Policy.SINGLE, (4,), (4,)), (3,), (3,)) is None


def test_init_containers_each_find_what_the_node_had_at_first() -> None:
    node = zones(Policy.SINGLE, (4,), (4,), scope=Scope.CONTAINER)
    assert given_to(node, (3,), init=((4,), (4,), (4,))) == ((0, (3,)),)
    assert given_to(node, (3,), init=((5,),)) is None


amounts = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=4)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], tuple[int, int]]:
    """What zones may give, what they have left, and what a pod asks for."""
    allocatable = tuple(draw(amounts))
    free = tuple((draw(st.integers(0, cpu)), draw(st.integers(0, gpu))) for cpu, gpu in allocatable)
    return allocatable, free, (draw(st.integers(0, 10)), draw(st.integers(0, 4)))


@given(nodes())
@settings(max_examples=100, deadline=None)
def test_single_agrees_with_trying_every_zone(case: Any) -> None:
    allocatable, free, wanted = case
    found = given_to(zones(Policy.SINGLE, *allocatable), wanted, free=free)
    fitting = [zone for zone, has in enumerate(free) if all(n <= h for n, h in zip(wanted, has, strict=True))]
    if not fitting:
        assert found is None
    else:
        assert found == (((fitting[0], wanted),) if any(wanted) else ())


@given(nodes())
@settings(max_examples=100, deadline=None)
def test_restricted_agrees_with_merging_every_hint_as_a_kubelet_does(case: Any) -> None:
    """A hint is preferred if no smaller set of zones could ever have had the resource; only such sets are taken, and
    all resources must prefer the same one."""
    allocatable, free, wanted = case
    node = zones(Policy.RESTRICTED, *allocatable)
    found = given_to(node, wanted, free=free)
    asked = [place for place, amount in enumerate(wanted) if amount]
    masks = [mask for width in range(1, len(free) + 1) for mask in combinations(range(len(free)), width)]

    def has(amounts: Any, mask: Any, place: Any) -> Any:
        return sum(amounts[zone][place] for zone in mask) >= wanted[place]

    def preferred(place: int) -> list[tuple[int, ...]]:
        possible = [len(mask) for mask in masks if has(allocatable, mask, place)]
        return [mask for mask in masks if has(free, mask, place) and len(mask) == min(possible)] if possible else []

    shared = [mask for mask in masks if all(mask in preferred(place) for place in asked)]
    if not asked:
        assert found == ()
    elif not shared:
        assert found is None
    else:
        assert found is not None
        assert {zone for zone, _ in found} <= set(shared[0])
        assert tuple(map(sum, zip(*(amounts for _, amounts in found), strict=True))) == wanted
        assert all(n <= h for zone, given in found for n, h in zip(given, free[zone], strict=True))


@given(nodes())
@settings(max_examples=60, deadline=None)
def test_best_effort_finds_room_whenever_all_zones_together_have_it(case: Any) -> None:
    allocatable, free, wanted = case
    found = given_to(zones(Policy.BEST_EFFORT, *allocatable), wanted, free=free)
    enough = all(sum(zone[place] for zone in free) >= amount for place, amount in enumerate(wanted))
    assert (found is not None) == enough
    if found:
        assert tuple(map(sum, zip(*(amounts for _, amounts in found), strict=True))) == wanted
