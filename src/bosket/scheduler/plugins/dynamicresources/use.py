"""DeviceUse: which devices are in use, and how much of shared ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from bosket.api.quantity import InvalidQuantity, parse
from bosket.api.resource_k8s import AllocationResult
from bosket.scheduler.model.device import CounterId, DeviceId, Pool
from bosket.scheduler.plugins.dynamicresources.capacity import NOTHING, Taken


class DeviceUse:
    """Devices in allocations. Adding and removing one cancels out exactly."""

    def __init__(self) -> None:
        self._held: dict[DeviceId, int] = {}  # how often
        self._size = 0
        self._parts: dict[DeviceId, dict[str, Fraction]] = {}

    def add(self, allocation: AllocationResult) -> None:
        self._change(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        self._change(allocation, -1)

    @property
    def size(self) -> int:
        """How many devices are held, each as often as it is."""
        return self._size

    def is_held(self, device: DeviceId) -> bool:
        return self._held.get(device, 0) > 0

    def parts_of(self, device: DeviceId) -> Taken:
        """What is taken of its capacities."""
        return self._parts.get(device, NOTHING)

    def drawn(self, pool: Pool) -> Mapping[CounterId, Fraction]:
        """What the devices in use take of the pool's counters."""
        total: dict[CounterId, Fraction] = {}
        for offer in pool.offers:
            if offer.draws and self.is_held(offer.id):
                for counter, amount in offer.draws:
                    total[counter] = total.get(counter, Fraction(0)) + amount
        return total

    def _change(self, allocation: AllocationResult, change: int) -> None:
        for each in allocation.devices.results:
            if each.adminAccess:
                continue
            device = DeviceId(each.driver, each.pool, each.device)
            times = self._held.get(device, 0) + change
            if times:
                self._held[device] = times
            else:
                del self._held[device]
            self._size += change
            if each.consumedCapacity:
                parts = self._parts.setdefault(device, {})
                for name, amount in _amounts(each.consumedCapacity.items()):
                    parts[name] = parts.get(name, Fraction(0)) + change * amount
                    if not parts[name]:
                        del parts[name]
                if not parts:
                    del self._parts[device]


def _amounts(items: Iterable[tuple[str, str | int | float]]) -> Iterable[tuple[str, Fraction]]:
    for name, amount in items:
        try:
            yield name, parse(amount)
        except InvalidQuantity:
            continue  # an unreadable amount can't be counted; the device is in use all the same
