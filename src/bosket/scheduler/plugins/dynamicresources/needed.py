"""Demands: the device demands of pod classes, each resolved once per cycle."""

from __future__ import annotations

from collections.abc import Hashable

from bosket.api.object import ObjectKey
from bosket.api.quantity import parse
from bosket.api.resource_k8s import DeviceClaim, ResourceClaimSpec
from bosket.scheduler.model.device import DeviceNeeds, ExtendedNeed
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins.dynamicresources.demand import Demand, demand_of


class Demands:
    """Raises UnusableClaim for what can't be served, whatever there is."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes, self._classes = snapshot.nodes, snapshot.inventory.classes
        self._known: dict[Hashable, Demand] = {}

    def of(self, needs: DeviceNeeds, index: int, key: ObjectKey | None = None) -> Demand:
        """That of one of the claims; `key`: which one it is, for a message, where pods have a claim each."""
        found = self._known.get((needs.number, index))
        if found is None:
            need = needs.claims[index]
            key = key or need.key
            name = f"ResourceClaim {key}" if key is not None else f"resource claim {need.name}"
            found = self._known[needs.number, index] = demand_of(need.spec, self._classes, name)
        return found

    def extended(self, lacking: tuple[ExtendedNeed, ...]) -> Demand:
        """That of extended resources."""
        requests = tuple(sorted((each for need in lacking for each in need.requests), key=lambda each: each.name))
        key = tuple((each.name, each.exactly.count, each.exactly.deviceClassName) for each in requests if each.exactly)
        found = self._known.get(key)
        if found is None:
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
            found = self._known[key] = demand_of(spec, self._classes, "extended resources")
        return found

    def lacking(self, needs: DeviceNeeds, row: NodeRow) -> tuple[ExtendedNeed, ...]:
        """The extended resources that devices must stand in for, because the node has none of them."""
        if not needs.extended:
            return ()
        allocatable = self._nodes.nodes[row].status.allocatable
        return tuple(each for each in needs.extended if not parse(allocatable.get(each.resource, 0)))
