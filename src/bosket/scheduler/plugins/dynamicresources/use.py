"""Which devices are in use, and how much of those that several may have a part of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from bosket.api.quantity import InvalidQuantity, parse
from bosket.api.resource_k8s import AllocationResult
from bosket.scheduler.model.device import CounterId, DeviceId, Pool, PoolId
from bosket.scheduler.plugins.dynamicresources.capacity import NOTHING, Taken

T = TypeVar("T")


class DeviceUse:
    """Devices that allocations hold. What is added and removed again leaves no trace."""

    def __init__(self) -> None:
        self._held: Counter[DeviceId] = Counter()
        self._size = 0
        self._parts: dict[DeviceId, dict[str, Fraction]] = {}
        self._in_pool: dict[PoolId, Counter[str]] = {}

    def add(self, allocation: AllocationResult) -> None:
        self._change(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        self._change(allocation, -1)

    @property
    def size(self) -> int:
        """How many devices are held, each as often as it is."""
        return self._size

    def is_held(self, device: DeviceId) -> bool:
        return self._held[device] > 0

    def parts_of(self, device: DeviceId) -> Taken:
        """What is taken of its capacities."""
        return self._parts.get(device, NOTHING)

    def drawn(self, pool: Pool) -> Mapping[CounterId, Fraction]:
        """What the devices in use take of the pool's counters."""
        held = self._in_pool.get(pool.id)
        total: dict[CounterId, Fraction] = {}
        if held:
            for offer in pool.offers:
                if held[offer.id.device] > 0:
                    for counter, amount in offer.draws:
                        total[counter] = total.get(counter, Fraction(0)) + amount
        return total

    def _change(self, allocation: AllocationResult, change: int) -> None:
        for each in allocation.devices.results:
            if each.adminAccess:
                continue
            device = DeviceId(each.driver, each.pool, each.device)
            _count(self._held, device, change)
            self._size += change
            in_pool = self._in_pool.setdefault(PoolId(each.driver, each.pool), Counter())
            _count(in_pool, each.device, change)
            if each.consumedCapacity:
                parts = self._parts.setdefault(device, {})
                for name, amount in _amounts(each.consumedCapacity.items()):
                    parts[name] = parts.get(name, Fraction(0)) + change * amount
                    if not parts[name]:
                        del parts[name]
                if not parts:
                    del self._parts[device]


def _count(counts: Counter[T], key: T, change: int) -> None:
    counts[key] += change
    if not counts[key]:
        del counts[key]


def _amounts(items: Iterable[tuple[str, str | int | float]]) -> Iterable[tuple[str, Fraction]]:
    for name, amount in items:
        try:
            yield name, parse(amount)
        except InvalidQuantity:
            continue  # what can't be read can't be counted; the device is held all the same
