"""Validation of Topologies: an alias stands for exactly one level. The CRD schema checks the rest."""

from __future__ import annotations

from collections import Counter

from bosket.api.kai import Topology
from bosket.runtime.webhook.verdict import Refusal, Verdict, quoted


def check(topology: Topology) -> Verdict:
    """Refuses aliases that mean two things."""
    levels = topology.spec.levels
    labels = {level.nodeLabel for level in levels}
    times = Counter(level.alias for level in levels if level.alias)
    refusals: list[Refusal] = []
    for index, level in enumerate(levels):
        if not level.alias:
            continue
        field = f"spec.levels[{index}].alias"
        if times[level.alias] > 1:
            refusals.append(Refusal(field, f"alias {quoted(level.alias)} stands for several levels: give each its own"))
        if level.alias in labels:
            message = f"alias {quoted(level.alias)} is the nodeLabel of a level: choose another, or leave it out"
            refusals.append(Refusal(field, message))
    return Verdict(tuple(refusals))
