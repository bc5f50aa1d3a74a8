"""Gang termination, as pure decisions: which parts have been below their minimum for too long.

A part that was never complete isn't terminated: recreating it gains nothing. "Never" is derived from a condition's
transition time, with a grace period after creation for the first writes. A part that is complete within that grace
period gets a condition that says so for good, because it may fail within the same seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.object import Condition, KubeObject
from bosket.api.time import InvalidDuration, parse_duration, parse_time
from bosket.grove.condition import (
    BREACHED,
    CLIQUE_SCHEDULED,
    TERMINATING_GANG,
    WAS_WHOLE,
    Conditions,
    find,
    is_true,
    seconds_since,
    with_condition,
)

_START_GRACE_SECONDS: Final = 5.0
_DEFAULT_DELAY_SECONDS: Final = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Breach:
    """A part below its minimum, with the seconds until termination (none left if not positive)."""

    name: str
    seconds_left: float

    @property
    def is_over(self) -> bool:
        return self.seconds_left <= 0


def remember_whole(conditions: Conditions, obj: KubeObject, now: float) -> Conditions:
    """The conditions of an object that has its minimum, with one that keeps this in mind if nothing else would."""
    created = obj.metadata.creationTimestamp
    # Times are whole seconds: a change that is written in the grace's last one may look as if it were later, or not.
    if created is None or now > parse_time(created) + _START_GRACE_SECONDS + 1.0:
        return conditions
    return _with_was_whole(conditions, now)


def remember_missed(conditions: Conditions, obj: KubeObject, now: float) -> Conditions:
    """The conditions of an object in breach whose parts were all whole once, with one that says so.

    Parts may come up and go down again between two looks at the whole: what they remember is all that tells.
    """
    breached = find(conditions, BREACHED)
    if breached is None or _was_up(breached, obj, conditions):
        return conditions
    return _with_was_whole(conditions, now)


def _with_was_whole(conditions: Conditions, now: float) -> Conditions:
    return with_condition(conditions, WAS_WHOLE, "True", "SufficientPods", "It had its minimum once", now=now)


def delay_seconds(owner: PodCliqueSet) -> float:
    """How long a replica may be below its minimum."""
    try:
        return parse_duration(owner.spec.template.terminationDelay or "")
    except InvalidDuration:
        return _DEFAULT_DELAY_SECONDS  # the set's controller says that it makes no sense


def is_breached(clique: PodClique) -> bool:
    """Whether a PodClique is below its minimum, for whatever time."""
    return is_true(clique.status.conditions, BREACHED)


def was_scheduled(clique: PodClique) -> bool:
    """Whether the PodClique had its minimum scheduled once, by what its conditions say."""
    scheduled = find(clique.status.conditions, CLIQUE_SCHEDULED)
    return scheduled is not None and (
        scheduled.status == "True" or _was_up(scheduled, clique, clique.status.conditions)
    )


def clique_breaches(owner: PodCliqueSet, cliques: Iterable[PodClique], now: float) -> Iterator[Breach]:
    """PodCliques below their minimum that were scheduled once."""
    for each in cliques:
        breached = find(each.status.conditions, BREACHED)
        if breached is not None and breached.status == "True" and was_scheduled(each):
            yield Breach(each.metadata.name, delay_seconds(owner) - seconds_since(breached, now))


def group_breaches(owner: PodCliqueSet, groups: Iterable[PodCliqueScalingGroup], now: float) -> Iterator[Breach]:
    """Scaling groups below their minimum that were healthy once, and aren't being made anew already."""
    for each in groups:
        breached = find(each.status.conditions, BREACHED)
        if breached is None or breached.status != "True" or not _was_up(breached, each, each.status.conditions):
            continue
        if not is_true(each.status.conditions, TERMINATING_GANG):
            yield Breach(each.metadata.name, delay_seconds(owner) - seconds_since(breached, now))


def _was_up(condition: Condition, obj: KubeObject, conditions: Conditions) -> bool:
    """Whether what a condition denies by now was true once."""
    if is_true(conditions, WAS_WHOLE):
        return True
    created = obj.metadata.creationTimestamp
    return created is not None and parse_time(condition.lastTransitionTime) > parse_time(created) + _START_GRACE_SECONDS
