"""Which pod is charged with a ResourceClaim that several pods use: the first by name of those that count.

Kept up to date pod by pod as pods change, at a cost that doesn't depend on how many pods share a claim: thousands of
pods may share one, and each of them changes several times. The pod group controller feeds and reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.kube.informer import Change


class Charges:
    """The charged pod of each claim, among the pods for which `counts` is true."""

    def __init__(self, claims_of: Callable[[Pod], Iterable[str]], counts: Callable[[Pod], bool]) -> None:
        self._claims_of, self._counts = claims_of, counts
        self._users: dict[str, _Users] = {}

    def charged(self, claim: str) -> ObjectKey | None:
        """The pod that is charged with the claim; None while no pod that counts uses it."""
        users = self._users.get(claim)
        return None if users is None else users.first()

    def update(self, change: Change[Pod]) -> set[ObjectKey]:
        """Takes over what became of a pod; returns the pods for which a claim began or ceased to be charged to them."""
        before, after = self._claims(change.old), self._claims(change.new)
        pod = change.new or change.old
        if pod is None:
            return set()
        affected: set[ObjectKey | None] = set()
        for claim in before ^ after:
            earlier = self.charged(claim)
            if claim in after:
                self._users.setdefault(claim, _Users()).add(pod.key)
            else:
                self._leave(claim, pod.key)
            later = self.charged(claim)
            if later != earlier:
                affected |= {earlier, later}
        return {each for each in affected if each is not None}

    def _claims(self, pod: Pod | None) -> set[str]:
        return set(self._claims_of(pod)) if pod is not None and self._counts(pod) else set()

    def _leave(self, claim: str, pod: ObjectKey) -> None:
        users = self._users[claim]
        users.remove(pod)
        if not users.present:
            del self._users[claim]


class _Users:
    """The users of one claim; the first of them is at hand."""

    __slots__ = ("_heap", "present")

    def __init__(self) -> None:
        self.present: set[ObjectKey] = set()
        #: All that are present, and some that left: a heap has no cheap removal but of its first.
        self._heap: list[ObjectKey] = []

    def add(self, pod: ObjectKey) -> None:
        self.present.add(pod)
        heappush(self._heap, pod)

    def remove(self, pod: ObjectKey) -> None:
        self.present.discard(pod)
        if len(self._heap) > 2 * len(self.present) + 8:
            # Pods that come and go behind a first one that stays would pile up; paid for by the removals before.
            self._heap = sorted(self.present)

    def first(self) -> ObjectKey | None:
        while self._heap and self._heap[0] not in self.present:
            heappop(self._heap)
        return self._heap[0] if self._heap else None
