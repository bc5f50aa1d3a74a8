"""Pods that something failed for wait before it is tried again, longer each time.

Used for pods whose binding failed, and for pods whose eviction was refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.scheduler.state.own.memory import KeptHold

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A pod that waits."""

    uid: str
    failures: int
    until: float
    by: str  #: who refused, for people


class Holds:
    """Back-off by pod. A pod that is gone or replaced is forgotten, and so is one that got on."""

    def __init__(self) -> None:
        self._holds: dict[ObjectKey, Hold] = {}

    def add(self, pod: ObjectKey, uid: str, now: float, by: str = "") -> None:
        before = self._holds.get(pod)
        failures = before.failures + 1 if before is not None and before.uid == uid else 1
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 10))
        self._holds[pod] = Hold(uid, failures, now + pause, by)

    def forget_unless(self, pod: ObjectKey, uid: str | None) -> None:
        """Keeps the hold only for the pod that has it."""
        if pod in self._holds and self._holds[pod].uid != uid:
            del self._holds[pod]

    def held(self, now: float) -> frozenset[ObjectKey]:
        return frozenset(pod for pod, hold in self._holds.items() if hold.until > now)

    def entries(self) -> tuple[KeptHold, ...]:
        """All of them, in order; also those whose time is up: the next failure counts on from there."""
        return tuple(
            KeptHold(pod, hold.uid, hold.failures, hold.until, hold.by) for pod, hold in sorted(self._holds.items())
        )

    def restore(self, entries: Iterable[KeptHold]) -> None:
        """Takes over what another process knew, instead of what is known here."""
        self._holds = {each.pod: Hold(each.uid, each.failures, each.until, each.by) for each in entries}

    def refused(self, now: float) -> dict[ObjectKey, str]:
        """Those that wait, and because of whom."""
        return {pod: hold.by for pod, hold in self._holds.items() if hold.until > now}
