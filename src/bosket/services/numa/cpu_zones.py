"""Which NUMA zone each CPU belongs to, as Linux tells it: the kubelet only says which CPUs a container has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


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
