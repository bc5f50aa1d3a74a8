"""Which zones a kubelet would give a pod, by its policy: pure, on whole numbers.

    single-numa-node   one zone that has everything, the lowest one
    restricted         each resource takes as few zones as it would on an empty node; that must be the same number for
                       all, and the lowest zones that together have everything are given
    best-effort        zone after zone, the one that covers the most of what is still missing; what isn't covered then
                       makes the kubelet take the pod all the same, but nobody knows where

Containers that run together take from what those before them left; each init container finds everything as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from bosket.scheduler.model.numa import Named, NumaNeeds, NumaZones, Policy, Scope

Vector = Sequence[int]  #: by resource
Free = Sequence[Vector]  #: by zone and resource
#: Zone and what is taken of it, by resource; zones in order. Nothing where nothing is asked for.
Given = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks of the zones of nodes of one kind."""

    resources: tuple[int, ...]  #: of the resources that are aligned
    together: tuple[Vector, ...]
    apart: tuple[Vector, ...]

    @classmethod
    def of(cls, needs: NumaNeeds, zones: NumaZones, resources: tuple[int, ...]) -> Demand:
        """`resources`: those that matter, in the zones' order."""

        def vectors(units: tuple[Named, ...]) -> tuple[Vector, ...]:
            return tuple(zones.vector(dict(each)) for each in units)

        if zones.scope is Scope.POD:
            return cls(resources, vectors((needs.pod,)), ())
        return cls(resources, vectors(needs.together), vectors(needs.apart))


def fit(zones: NumaZones, free: Free, demand: Demand) -> Given | None:
    """What the pod would be given; None when the kubelet can't align it."""
    left = [list(each) for each in free]
    given: dict[int, list[int]] = {}
    for unit in demand.together:
        chosen = _choose(zones, left, demand.resources, unit)
        if chosen is None:
            return None
        _draw(left, chosen, demand.resources, unit, given)
    if any(_choose(zones, free, demand.resources, unit) is None for unit in demand.apart):
        return None
    return tuple((zone, tuple(given[zone])) for zone in sorted(given))


def _choose(zones: NumaZones, free: Free, resources: Vector, unit: Vector) -> Sequence[int] | None:
    """The zones that one unit is spread over."""
    wanted = [(resource, unit[resource]) for resource in resources if unit[resource] > 0]
    match zones.policy:
        case Policy.SINGLE:
            return _lowest(free, wanted, 1)
        case Policy.BEST_EFFORT:
            return _greedy(free, dict(wanted))
        case _:
            widths = {_fewest(zones.widest[resource], amount) for resource, amount in wanted}
            if not widths:
                return ()
            width = widths.pop()
            return _lowest(free, wanted, width) if width and not widths else None


def _fewest(widest: Vector, amount: int) -> int:
    """How many zones it takes on an empty node; 0 when all of them together haven't enough."""
    return next((number for number, most in enumerate(widest, 1) if most >= amount), 0)


def _lowest(free: Free, wanted: Sequence[tuple[int, int]], width: int) -> Sequence[int] | None:
    for zones in combinations(range(len(free)), width):
        if all(sum(free[zone][resource] for zone in zones) >= amount for resource, amount in wanted):
            return zones
    return None


def _greedy(free: Free, missing: dict[int, int]) -> Sequence[int] | None:
    chosen: list[int] = []
    while any(amount > 0 for amount in missing.values()):
        best, best_cover = -1, 0
        for zone, has in enumerate(free):
            cover = sum(min(amount, has[resource]) for resource, amount in missing.items() if amount > 0)
            if zone not in chosen and cover > best_cover:
                best, best_cover = zone, cover
        if best < 0:
            return None
        chosen.append(best)
        for resource in missing:
            missing[resource] -= free[best][resource]
    return chosen


def _draw(
    left: list[list[int]], zones: Sequence[int], resources: Vector, unit: Vector, given: dict[int, list[int]]
) -> None:
    """Takes a unit from its zones, as much as there is from the first, and so on."""
    for resource in resources:
        missing = unit[resource]
        for zone in zones:
            taken = min(missing, left[zone][resource])
            if taken > 0:
                left[zone][resource] -= taken
                given.setdefault(zone, [0] * len(unit))[resource] += taken
                missing -= taken
