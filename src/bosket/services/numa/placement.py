"""The placement of a pod's containers: resources by NUMA zone, as in the annotation.

The kubelet only says which CPUs a container has; sysfs says in which zone each CPU is (`read_cpu_zones`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

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


class UnreadableCpus(ValueError):
    """The files that tell about zones aren't there or say something unexpected; the message names the file."""


def read_cpu_zones(sysfs: Path) -> dict[int, int]:
    """CPU → zone, from `devices/system/node/node*/cpulist` below the root of sysfs; raises `UnreadableCpus`."""
    root = sysfs / "devices" / "system" / "node"
    found: dict[int, int] = {}
    try:
        zones = sorted(path for path in root.iterdir() if path.name.removeprefix("node").isdecimal())
        for path in zones:
            file = path / "cpulist"
            for cpu in _cpus(file, file.read_text()):
                found[cpu] = int(path.name.removeprefix("node"))
    except OSError as error:
        raise UnreadableCpus(f"{error.filename}: {error.strerror}") from error
    if not found:
        raise UnreadableCpus(f"{root}: no CPUs there")
    return found


def _cpus(file: Path, text: str) -> Iterator[int]:
    """The CPUs of a list such as `0-3,8,12-13`."""
    for part in filter(None, map(str.strip, text.split(","))):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise UnreadableCpus(f"{file}: {part!r} is neither a CPU nor a range of CPUs such as 0-3")
        yield from range(int(first), int(last or first) + 1)
