"""Conditions of a status: found by type, set so that the time of the last transition stays true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bosket.api.object import Condition
from bosket.api.time import format_time, parse_time

CLIQUE_SCHEDULED: Final = "PodCliqueScheduled"
BREACHED: Final = "MinAvailableBreached"
TERMINATING_GANG: Final = "GangTerminationInProgress"
TOPOLOGY_UNAVAILABLE: Final = "TopologyLevelsUnavailable"

#: Ours: a PodClique, or a scaling group, had its minimum so soon after its creation that times don't tell.
WAS_WHOLE: Final = "bosket.dev/WasWhole"

UPDATING: Final = "UpdateInProgress"

Conditions = tuple[Condition, ...]


def find(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of a type, if it is there."""
    return next((each for each in conditions if each.type == type_), None)


def is_true(conditions: Sequence[Condition], type_: str) -> bool:
    """Whether a condition is there and True."""
    found = find(conditions, type_)
    return found is not None and found.status == "True"


def status_of(conditions: Sequence[Condition], type_: str) -> str:
    """True, False or Unknown; empty if the condition isn't there."""
    found = find(conditions, type_)
    return found.status if found is not None else ""


def without(conditions: Conditions, type_: str) -> Conditions:
    """The conditions but those of a type."""
    return tuple(each for each in conditions if each.type != type_)


def with_condition(
    conditions: Conditions,
    type_: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: float,
    observed_generation: int | None = None,
) -> Conditions:
    """The conditions with this one set. Where it says what it said before, they are the very same."""
    before = find(conditions, type_)
    if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
        return conditions
    since = before.lastTransitionTime if before is not None and before.status == status else format_time(now)
    after = Condition(
        type=type_,
        status=status,
        lastTransitionTime=since,
        reason=reason,
        message=message,
        observedGeneration=observed_generation,
    )
    if before is None:
        return (*conditions, after)
    return tuple(after if each.type == type_ else each for each in conditions)


def have_turned(before: Sequence[Condition], after: Sequence[Condition]) -> bool:
    """Whether a condition came, went, or has another status; another message alone doesn't count."""
    return {each.type: each.status for each in before} != {each.type: each.status for each in after}


def seconds_since(condition: Condition, now: float) -> float:
    """How long the condition has had its status."""
    return now - parse_time(condition.lastTransitionTime)
