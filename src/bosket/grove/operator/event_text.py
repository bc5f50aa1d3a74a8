"""Messages of events about several objects at once: a batch is one event, not one for each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_NAMES: Final = 20


def about_pods(done: str, names: Sequence[str]) -> str:
    """`Created Pod: a`, or `Created 3 Pods: a, b, c`."""
    return f"{done} Pod: {names[0]}" if len(names) == 1 else f"{done} {len(names)} Pods: {_listed(names)}"


def about_cliques(names: Sequence[str], done: str) -> str:
    """`PodClique a created successfully`, or `3 PodCliques created successfully: a, b, c`."""
    return f"PodClique {names[0]} {done}" if len(names) == 1 else f"{len(names)} PodCliques {done}: {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    left_out = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {left_out} more" if left_out > 0 else "")
