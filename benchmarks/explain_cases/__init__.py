"""Jobs that wait, each for a reason that it was built with: what `explain` must find out.

A case is a small cluster with one job that waits, the verdict that is right for it, and the codes that name its reason.
Sizes and bystanders are drawn by a seed; neither changes the label. Tests take a sample of them, the benchmark takes
three hundred.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.explain_cases import queue, room, spec
from benchmarks.explain_cases.case import KEY, Case, Draw, Made, in_order
from benchmarks.explain_cases.crowd import crowd

#: By label: what makes such a case.
BUILDERS: Final[Mapping[str, Callable[[Draw], Made]]] = {
    each.__name__.replace("_", "-"): each for each in (*queue.BUILDERS, *room.BUILDERS, *spec.BUILDERS)
}


def case(label: str, seed: int) -> Case:
    """The case of that label with that seed."""
    made = BUILDERS[label](Draw(random.Random(f"{label} {seed}")))
    return Case(label, seed, in_order(made.objects), made.verdict, made.codes, made.tiers)


def cases(count: int, seed: int = 0) -> list[Case]:
    """So many cases, of all labels in turn."""
    labels = list(BUILDERS)
    return [case(labels[number % len(labels)], seed + number // len(labels)) for number in range(count)]


__all__ = ["BUILDERS", "KEY", "Case", "case", "cases", "crowd"]
