"""Conditions in statuses: found by type; the transition time changes only with the status.

For all that decide on typed objects; the embedded API server, which has documents, does the same for these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from bosket.api.time import format_time


class AnyCondition(Protocol):
    """What conditions of all kinds have in common."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def lastTransitionTime(self) -> str | None: ...  # noqa: N802 - a name on the wire


C = TypeVar("C", bound=AnyCondition)


def find_condition(conditions: Iterable[C], type_: str) -> C | None:
    """The condition of a type, if there is one."""
    return next((each for each in conditions if each.type == type_), None)


def has_condition(conditions: Iterable[AnyCondition], type_: str, status: str = "True") -> bool:
    """Whether a condition is there and has this status."""
    return any(each.type == type_ and each.status == status for each in conditions)


def turned_at(before: AnyCondition | None, status: str, now: float) -> str:
    """The transition time of a condition that gets this status: now, or that of before where the status stays."""
    since = before.lastTransitionTime if before is not None and before.status == status else None
    return since or format_time(now)
