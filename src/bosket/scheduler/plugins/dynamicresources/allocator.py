"""Allocator: devices for claims on one node: the first combination, in order of pools and devices, that serves them
all.

A pure search with backtracking. Of devices that match exactly the same, one is tried per step, so a node full of equal
devices is cheap; the rest is bounded by a number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from bosket.api.core import Taint
from bosket.api.quantity import parse
from bosket.kube.taint import tolerates
from bosket.scheduler.model.device import CounterId, DeviceId, Offer, Pool, PoolId
from bosket.scheduler.plugins.dynamicresources.capacity import NOTHING, Taken, taken_by
from bosket.scheduler.plugins.dynamicresources.demand import ALL_DEVICES, MOST_DEVICES, Demand, Want
from bosket.scheduler.plugins.dynamicresources.selector import attribute_of, matching
from bosket.scheduler.plugins.dynamicresources.use import DeviceUse

#: Devices that are tried before the search gives a node up.
MOST_STEPS = 20_000


class Reach(NamedTuple):
    """A pool, and the devices of it that a node reaches."""

    pool: Pool
    offers: tuple[tuple[int, Offer], ...]  #: with their number in the pool


class Given(NamedTuple):
    """A device for a request."""

    want: Want
    offer: Offer
    taken: Taken  #: of its capacities, where others may have the rest


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node can't serve the claims."""

    text: str


#: The maximum depth of the recursion: users decide how many claims a pod has, and Python's stack is limited.
DEEPEST: Final = 600

Allotment = tuple[tuple[Given, ...], ...]  #: by claim


def allocate(demands: Sequence[Demand], reach: Sequence[Reach], use: DeviceUse) -> Allotment | Refusal:
    """Devices for all claims, none of which is in use; or the refusal."""
    if _depth(demands) > DEEPEST:
        return Refusal("node(s) can't be searched for so many resource claims and devices of one pod")
    search = _Search(demands, reach, use)
    try:
        if search.place(0, 0):
            return tuple(tuple(given) for given in search.given)
    except _TooManySteps:
        return Refusal("node(s) have too many combinations of devices for the resource claims")
    return Refusal(search.problem or "node(s) can't allocate all resource claims")


def _depth(demands: Sequence[Demand]) -> int:
    """How deep the search goes: a call for every device, and some for every request."""
    return sum(
        1 + sum(4 + max((MOST_DEVICES if want.count == ALL_DEVICES else want.count for want in wants), default=0)
                for wants in demand.requests)
        for demand in demands
    )  # fmt: skip


class _TooManySteps(Exception):
    pass


class _Candidate(NamedTuple):
    offer: Offer
    pool: Pool
    number: int  #: of the offer in the pool


class _Search:
    def __init__(self, demands: Sequence[Demand], reach: Sequence[Reach], use: DeviceUse) -> None:
        self._demands, self._reach, self._use = demands, reach, use
        self._steps = 0
        self._candidates: dict[Want, list[_Candidate] | None] = {}
        self._chosen: dict[DeviceId, list[tuple[int, bool]]] = {}  # claims that have it, and whether to administer it
        self._parts: dict[DeviceId, dict[str, Fraction]] = {}
        self._left: dict[PoolId, dict[CounterId, Fraction]] = {}
        self.given: list[list[Given]] = [[] for _ in demands]
        self._sorts: dict[DeviceId, object] = {}
        self.problem = ""

    def place(self, claim: int, request: int) -> bool:
        """The request of the claim, and all after it."""
        if claim == len(self._demands):
            return True
        requests = self._demands[claim].requests
        if request == len(requests):
            return self.place(claim + 1, 0)
        return any(self._place_want(claim, request, want) for want in requests[request])

    def _place_want(self, claim: int, request: int, want: Want) -> bool:
        candidates = self._candidates_for(want)
        if candidates is None:
            return False
        if want.count != ALL_DEVICES:
            # Without this check a node that is short of devices would be searched exhaustively.
            return len(candidates) >= want.count and self._take(claim, request, want, 0, want.count)
        return bool(candidates) and self._take_all(claim, request, want, candidates)

    def _take(self, claim: int, request: int, want: Want, start: int, missing: int) -> bool:
        candidates = self._candidates[want] or []
        if not missing:
            return self.place(claim, request + 1)
        if missing > MOST_DEVICES - len(self.given[claim]) or missing > len(candidates) - start:
            return False
        tried: set[object] = set()
        for index in range(start, len(candidates)):
            candidate = candidates[index]
            if (tried and self._sort(candidate) in tried) or not self._add(claim, want, candidate):
                continue
            if self._take(claim, request, want, index + 1, missing - 1):
                return True
            self._remove(claim, candidate)
            tried.add(self._sort(candidate))
        return False

    def _take_all(self, claim: int, request: int, want: Want, candidates: list[_Candidate]) -> bool:
        added = []
        if len(candidates) <= MOST_DEVICES - len(self.given[claim]):
            for candidate in candidates:
                if not self._add(claim, want, candidate):
                    break
                added.append(candidate)
        if len(added) == len(candidates) and self.place(claim, request + 1):
            return True
        for candidate in reversed(added):
            self._remove(claim, candidate)
        return False

    def _candidates_for(self, want: Want) -> list[_Candidate] | None:
        """Devices that match; for all of them also those in use, so that there is no doubt what "all" means."""
        if want not in self._candidates:
            self._candidates[want] = self._find(want)
        return self._candidates[want]

    def _find(self, want: Want) -> list[_Candidate] | None:
        every = want.count == ALL_DEVICES
        found = []
        for pool, offers in self._reach:
            if pool.problem:
                self.problem = f"node(s) have devices in pool {pool.id.driver}/{pool.id.pool}: {pool.problem}"
                if every:
                    return None
                continue
            matches = matching(pool, want.selectors)
            for index, offer in offers:
                # devices in use: the pod would have to wait for them
                if not matches[index] or offer.device.bindingConditions:
                    continue
                if _taken(want, offer) is None:
                    continue
                if every or self._is_usable(want, offer):
                    found.append(_Candidate(offer, pool, index))
        return found

    def _is_usable(self, want: Want, offer: Offer) -> bool:
        if not want.admin and not offer.is_shared and self._use.is_held(offer.id):
            return False
        return is_tolerated(want, offer)

    def _sort(self, candidate: _Candidate) -> object:
        """Devices of one sort match exactly the same requests and selectors."""
        found = self._sorts.get(candidate.offer.id)
        if found is None:
            found = self._sorts[candidate.offer.id] = self._sort_of(*candidate)
        return found

    def _sort_of(self, offer: Offer, pool: Pool, index: int) -> object:
        if offer.is_shared:
            return offer.id
        wants = (want for demand in self._demands for ways in demand.requests for want in ways)
        matched = frozenset(want.selectors for want in wants if matching(pool, want.selectors)[index])
        attributes = tuple(
            attribute_of(offer, constraint.matchAttribute or constraint.distinctAttribute or "")
            for demand in self._demands
            for constraint in demand.constraints
        )
        device = offer.device
        taints = tuple((taint.key, taint.value, taint.effect) for taint in device.taints)
        capacity = tuple(sorted((name, str(each.value)) for name, each in device.capacity.items()))
        draws = (pool.id, offer.draws) if offer.draws else ()
        held = self._use.is_held(offer.id)  # by others, where it is for administration
        return (matched, attributes, taints, capacity, draws, held)

    def _add(self, claim: int, want: Want, candidate: _Candidate) -> bool:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise _TooManySteps
        offer, pool, _ = candidate
        if not self._is_usable(want, offer):
            return False
        chosen = self._chosen.get(offer.id, [])
        if any(by == claim for by, _ in chosen) and (want.admin or not offer.is_shared):
            return False
        if not want.admin and not offer.is_shared and not all(admin for _, admin in chosen):
            return False
        taken = _taken(want, offer)
        if taken is None or not self._agrees(claim, want, offer):
            return False
        if not want.admin and offer.is_shared and not self._has_part(offer, taken):
            return False
        if not want.admin and offer.draws and not self._is_drawn(offer) and not self._draw(offer, pool):
            return False
        self._chosen.setdefault(offer.id, []).append((claim, want.admin))
        shared = offer.is_shared and not want.admin
        if shared:
            parts = self._parts.setdefault(offer.id, {})
            for name, amount in taken.items():
                parts[name] = parts.get(name, Fraction(0)) + amount
        self.given[claim].append(Given(want, offer, taken if shared else NOTHING))
        return True

    def _remove(self, claim: int, candidate: _Candidate) -> None:
        want, offer, taken = self.given[claim].pop()
        self._chosen[offer.id].pop()
        if taken:
            for name, amount in taken.items():
                self._parts[offer.id][name] -= amount
        if not want.admin and offer.draws and not self._is_drawn(offer):
            left = self._left[candidate.pool.id]
            for counter, amount in offer.draws:
                left[counter] += amount

    def _agrees(self, claim: int, want: Want, offer: Offer) -> bool:
        """With what the claim's constraints say about the devices that it has so far."""
        for constraint in self._demands[claim].constraints:
            if not want.is_named(constraint.requests):
                continue
            name = constraint.matchAttribute or constraint.distinctAttribute or ""
            value = attribute_of(offer, name)
            if value is None:
                return False
            others = (
                attribute_of(each.offer, name) for each in self.given[claim] if each.want.is_named(constraint.requests)
            )
            if constraint.matchAttribute is not None:
                if any(other != value for other in others):
                    return False
            elif any(other == value for other in others):
                return False
        return True

    def _has_part(self, offer: Offer, taken: Taken) -> bool:
        used, parts = self._use.parts_of(offer.id), self._parts.get(offer.id, NOTHING)
        for name, amount in taken.items():
            total = amount + used.get(name, Fraction(0)) + parts.get(name, Fraction(0))
            if total > parse(offer.device.capacity[name].value):
                return False
        return True

    def _is_drawn(self, offer: Offer) -> bool:
        """Whether the device is in use by somebody, who has taken of the counters for it."""
        if self._use.is_held(offer.id):
            return True
        return any(each.offer is offer and not each.want.admin for given in self.given for each in given)

    def _draw(self, offer: Offer, pool: Pool) -> bool:
        left = self._left.get(pool.id)
        if left is None:
            drawn = self._use.drawn(pool)
            left = {counter: total - drawn.get(counter, Fraction(0)) for counter, total in pool.counters.items()}
            self._left[pool.id] = left
        if any(left[counter] < amount for counter, amount in offer.draws):
            return False
        for counter, amount in offer.draws:
            left[counter] -= amount
        return True


def is_tolerated(want: Want, offer: Offer) -> bool:
    """Whether the request tolerates all taints of the device that keep others away."""
    for taint in offer.device.taints:
        if taint.effect in ("NoSchedule", "NoExecute"):
            plain = Taint(key=taint.key, value=taint.value, effect=taint.effect)
            if not any(tolerates(each, plain) for each in want.tolerations):
                return False
    return True


def _taken(want: Want, offer: Offer) -> Taken | None:
    """What the request takes of the device's capacities; None when it can't be served. Of most, nothing is asked."""
    return taken_by(want.capacity, offer.device) if want.capacity is not None or offer.is_shared else NOTHING
