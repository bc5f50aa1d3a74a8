"""Evictions that were decided and aren't observed yet.

Such a pod is on its way out from the moment of the decision, as if the API server had deleted it already, so that the
next cycle doesn't evict others for the same job. It stands as before when the eviction is withdrawn.
"""

from __future__ import annotations

from typing import NamedTuple

from bosket.api.core import Pod
from bosket.api.object import ObjectKey


class _Assumed(NamedTuple):
    uid: str
    since: float


class Evictions:
    """Assumed evictions by pod."""

    def __init__(self) -> None:
        self._assumed: dict[ObjectKey, _Assumed] = {}

    def assume(self, pod: ObjectKey, uid: str, now: float) -> None:
        self._assumed[pod] = _Assumed(uid, now)

    def withdraw(self, pod: ObjectKey) -> bool:
        """True when it was still only assumed."""
        return self._assumed.pop(pod, None) is not None

    def observe(self, pod: Pod) -> bool:
        """The pod was seen; whether its eviction is still only assumed. Another pod of that name isn't meant."""
        found = self._assumed.get(pod.key)
        if found is None:
            return False
        if found.uid != pod.metadata.uid or pod.metadata.deletionTimestamp is not None:
            del self._assumed[pod.key]
            return False
        return True

    def forget(self, pod: ObjectKey) -> None:
        self._assumed.pop(pod, None)

    def since(self, pod: ObjectKey) -> float | None:
        found = self._assumed.get(pod)
        return found.since if found is not None else None

    def pods(self) -> tuple[ObjectKey, ...]:
        return tuple(sorted(self._assumed))
