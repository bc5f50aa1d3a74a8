"""Pods whose binding failed wait before they are decided on again, longer each time."""

from __future__ import annotations

from dataclasses import dataclass

from bosket.api.object import ObjectKey

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A pod that waits."""

    uid: str
    failures: int
    until: float


class Holds:
    """Back-off by pod. A pod that is bound, gone or replaced is forgotten."""

    def __init__(self) -> None:
        self._holds: dict[ObjectKey, Hold] = {}

    def add(self, pod: ObjectKey, uid: str, now: float) -> None:
        before = self._holds.get(pod)
        failures = before.failures + 1 if before is not None and before.uid == uid else 1
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 10))
        self._holds[pod] = Hold(uid, failures, now + pause)

    def forget_unless(self, pod: ObjectKey, uid: str | None) -> None:
        """Keeps the hold only for the pod that has it."""
        if pod in self._holds and self._holds[pod].uid != uid:
            del self._holds[pod]

    def held(self, now: float) -> frozenset[ObjectKey]:
        return frozenset(pod for pod, hold in self._holds.items() if hold.until > now)
