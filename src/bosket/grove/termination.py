"""Gang termination, as pure decisions: who has been below its minimum for too long.

Whoever was never up isn't terminated: nothing is gained by making it anew. "Never" is judged by the time of a
condition's last change, with a grace after creation for what is written at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.object import Condition, KubeObject
from bosket.api.time import InvalidDuration, parse_duration, parse_time
from bosket.grove.condition import BREACHED, CLIQUE_SCHEDULED, TERMINATING_GANG, find, is_true, seconds_since

_START_GRACE_SECONDS: Final = 5.0
_DEFAULT_DELAY_SECONDS: Final = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Breach:
    """Somebody is below its minimum; how long until that has consequences (none left if not positive)."""

    name: str
    seconds_left: float

    @property
    def is_over(self) -> bool:
        return self.seconds_left <= 0


def delay_seconds(owner: PodCliqueSet) -> float:
    """How long a replica may be below its minimum."""
    try:
        return parse_duration(owner.spec.template.terminationDelay or "")
    except InvalidDuration:
        return _DEFAULT_DELAY_SECONDS  # the set's controller says that it makes no sense


def is_breached(clique: PodClique) -> bool:
    """Whether a PodClique is below its minimum, for whatever time."""
    return is_true(clique.status.conditions, BREACHED)


def clique_breaches(owner: PodCliqueSet, cliques: Iterable[PodClique], now: float) -> Iterator[Breach]:
    """PodCliques below their minimum that were scheduled once."""
    for each in cliques:
        breached = find(each.status.conditions, BREACHED)
        if breached is None or breached.status != "True":
            continue
        scheduled = find(each.status.conditions, CLIQUE_SCHEDULED)
        if scheduled is not None and (scheduled.status == "True" or _changed_later(scheduled, each)):
            yield Breach(each.metadata.name, delay_seconds(owner) - seconds_since(breached, now))


def group_breaches(owner: PodCliqueSet, groups: Iterable[PodCliqueScalingGroup], now: float) -> Iterator[Breach]:
    """Scaling groups below their minimum that were healthy once, and aren't being made anew already."""
    for each in groups:
        breached = find(each.status.conditions, BREACHED)
        if breached is None or breached.status != "True" or not _changed_later(breached, each):
            continue
        if not is_true(each.status.conditions, TERMINATING_GANG):
            yield Breach(each.metadata.name, delay_seconds(owner) - seconds_since(breached, now))


def _changed_later(condition: Condition, obj: KubeObject) -> bool:
    created = obj.metadata.creationTimestamp
    return created is not None and parse_time(condition.lastTransitionTime) > parse_time(created) + _START_GRACE_SECONDS
