"""Profiles as files: for speedscope (a viewer in the browser), and as lines that flame graph tools read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from bosket.runtime.profiler import Place, Profile, Stack

Format = Literal["speedscope", "collapsed"]


def as_speedscope(profile: Profile, name: str) -> bytes:
    """The file format of https://www.speedscope.app: one profile for each thread, weights in microseconds."""
    numbers: dict[Place, int] = {}

    def number(place: Place) -> int:
        return numbers.setdefault(place, len(numbers))

    profiles = [_thread(thread, stacks, number) for thread, stacks in profile.threads.items()]
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": f"{name}: {summary(profile)}",
        "exporter": "bosket",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": _name(each), "file": each.module, "line": each.line} for each in numbers]},
        "profiles": profiles,
    }
    return msgspec.json.encode(document)


def as_collapsed(profile: Profile, _name_of_process: str) -> bytes:
    """A line for each stack, outermost first, and its microseconds."""
    lines = []
    for thread, stacks in profile.threads.items():
        for stack, nanoseconds in sorted(stacks.items()):
            frames = ";".join(_name(each).replace(";", ",") for each in stack)
            lines.append(f"{thread.replace(';', ',')};{frames} {nanoseconds // 1000}\n")
    return "".join(lines).encode()


#: By format: how it is written, and what such files are called.
FORMATS: Final[Mapping[Format, tuple[Callable[[Profile, str], bytes], str]]] = {
    "speedscope": (as_speedscope, "profile.speedscope.json"),
    "collapsed": (as_collapsed, "profile.collapsed.txt"),
}


def summary(profile: Profile) -> str:
    """How much there is to see, and what it cost."""
    return (
        f"{profile.cpu_seconds:.2f} s of CPU in {profile.seconds:.1f} s, {profile.samples} samples, "
        f"which took {profile.own_cpu_seconds:.3f} s"
    )


def _thread(thread: str, stacks: Mapping[Stack, int], number: Callable[[Place], int]) -> dict[str, Any]:
    weights = [nanoseconds // 1000 for _, nanoseconds in sorted(stacks.items())]
    return {
        "type": "sampled",
        "name": thread,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": [[number(place) for place in stack] for stack, _ in sorted(stacks.items())],
        "weights": weights,
    }


def _name(place: Place) -> str:
    return f"{place.module}.{place.name}" if place.module else place.name
