"""From what a pod's containers have to what the annotation says: resources by zone."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bosket.api.quantity import from_int
from bosket.services.numa.pod_resources import PodResources

Placement = Mapping[int, Mapping[str, int]]  #: zone → resource → amount


def placement_of(pod: PodResources, cpu_zones: Mapping[int, int]) -> Placement:
    """What the pod has in each zone. What is in several zones, or in none, belongs to nobody."""
    found: dict[int, dict[str, int]] = {}

    def add(zone: int, resource: str, amount: int) -> None:
        if amount:
            of_zone = found.setdefault(zone, {})
            of_zone[resource] = of_zone.get(resource, 0) + amount

    for container in pod.containers:
        for device in container.devices:
            if len(device.zones) == 1:
                add(device.zones[0], device.resource, len(device.ids))
        for cpu in container.cpus:
            if cpu in cpu_zones:
                add(cpu_zones[cpu], "cpu", 1)
        for memory in container.memory:
            if len(memory.zones) == 1:
                add(memory.zones[0], memory.type or "memory", memory.size)
    return found


def annotation_of(placement: Placement) -> str:
    """As the scheduler reads it; zones have the names that topology exporters give them, in order of these names."""
    by_name = sorted((f"node-{zone}", amounts) for zone, amounts in placement.items())
    written = [
        {"zone": name, "amount": {resource: from_int(amounts[resource]) for resource in sorted(amounts)}}
        for name, amounts in by_name
    ]
    return msgspec.json.encode(written).decode()
