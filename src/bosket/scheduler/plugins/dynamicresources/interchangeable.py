"""Interchangeable: devices for a claim that asks for some devices of a node, no matter which: the first free ones.

Most claims are like that and need no search. The result is that of the search (`allocator`); where it depends on more
than which devices are in use, or too few are free, this module gives no answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from bosket.scheduler.model.device import Offer
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.plugins.dynamicresources.allocator import Allotment, Given, is_tolerated
from bosket.scheduler.plugins.dynamicresources.capacity import NOTHING
from bosket.scheduler.plugins.dynamicresources.demand import ALL_DEVICES, MOST_DEVICES, Demand, Want
from bosket.scheduler.plugins.dynamicresources.reach import Reaches
from bosket.scheduler.plugins.dynamicresources.selector import matching
from bosket.scheduler.plugins.dynamicresources.use import DeviceUse


class Interchangeable:
    """Remembers, by request and node, which devices will do when nobody has them: that stays for the whole cycle."""

    def __init__(self, reaches: Reaches) -> None:
        self._reaches = reaches
        self._wants: dict[Demand, Want | None] = {}
        self._offers: dict[tuple[Want, int], tuple[Offer, ...]] = {}

    def allocate(self, demands: Sequence[Demand], row: NodeRow, use: DeviceUse) -> Allotment | None:
        """The first devices of the node that are free; None where it takes a search to know."""
        want = self._only_want(demands)
        if want is None:
            return None
        offers = self._offers.get((want, row))
        if offers is None:
            offers = self._offers[want, row] = self._suitable(want, row)
        given = []
        for offer in offers:
            if not use.is_held(offer.id):
                given.append(Given(want, offer, NOTHING))
                if len(given) == want.count:
                    return (tuple(given),)
        return None

    def _only_want(self, demands: Sequence[Demand]) -> Want | None:
        """The one request that there is, if it asks for a number of devices and nothing is said of them together."""
        if len(demands) != 1:
            return None
        demand = demands[0]
        if demand not in self._wants:
            self._wants[demand] = _only_want(demand)
        return self._wants[demand]

    def _suitable(self, want: Want, row: NodeRow) -> tuple[Offer, ...]:
        """In order; none at all where one of them may be had in part, or draws on counters that others draw on."""
        suitable = []
        for pool, offers in self._reaches.of(row):
            matches = matching(pool, want.selectors) if not pool.problem else ()
            for index, offer in offers if matches else ():
                if not matches[index] or offer.device.bindingConditions:
                    continue
                if offer.is_shared or offer.draws:
                    return ()
                if is_tolerated(want, offer):
                    suitable.append(offer)
        return tuple(suitable)


def _only_want(demand: Demand) -> Want | None:
    if demand.constraints or len(demand.requests) != 1 or len(demand.requests[0]) != 1:
        return None
    want = demand.requests[0][0]
    is_plain = want.count != ALL_DEVICES and want.count <= MOST_DEVICES and not want.admin and want.capacity is None
    return want if is_plain else None
