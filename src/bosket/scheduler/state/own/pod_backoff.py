"""Back-off by pod: after a failed binding or a refused eviction a pod waits, longer each time, before the next try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.scheduler.state.own.memory import KeptBackoff

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class PodBackoff:
    """The back-off of one pod."""

    uid: str
    failures: int
    until: float
    by: str  #: what refused the pod's eviction, for people


class PodBackoffs:
    """Back-offs by pod. That of a pod which is gone, was replaced or got on is forgotten."""

    def __init__(self) -> None:
        self._backoffs: dict[ObjectKey, PodBackoff] = {}

    def add(self, pod: ObjectKey, uid: str, now: float, by: str = "") -> None:
        """Counts one more failure of the pod."""
        before = self._backoffs.get(pod)
        failures = before.failures + 1 if before is not None and before.uid == uid else 1
        pause = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, 10))
        self._backoffs[pod] = PodBackoff(uid, failures, now + pause, by)

    def forget_unless(self, pod: ObjectKey, uid: str | None) -> None:
        """Drops the back-off of another pod with this key."""
        if pod in self._backoffs and self._backoffs[pod].uid != uid:
            del self._backoffs[pod]

    def waiting(self, now: float) -> frozenset[ObjectKey]:
        """Pods whose back-off isn't over."""
        return frozenset(pod for pod, backoff in self._backoffs.items() if backoff.until > now)

    def entries(self) -> tuple[KeptBackoff, ...]:
        """All back-offs, in order; also those that are over: the next failure counts on from there."""
        return tuple(
            KeptBackoff(pod, backoff.uid, backoff.failures, backoff.until, backoff.by)
            for pod, backoff in sorted(self._backoffs.items())
        )

    def restore(self, entries: Iterable[KeptBackoff]) -> None:
        """Replaces all back-offs by those of another process."""
        self._backoffs = {each.pod: PodBackoff(each.uid, each.failures, each.until, each.by) for each in entries}

    def refused(self, now: float) -> dict[ObjectKey, str]:
        """Pods whose back-off isn't over, and what refused their eviction."""
        return {pod: backoff.by for pod, backoff in self._backoffs.items() if backoff.until > now}
