"""Promises: volumes of pods that are being bound, until the volumes themselves show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from bosket.api.object import ObjectKey

NOT_BOUND: Final[Mapping[str, str]] = MappingProxyType({})


class Promise(NamedTuple):
    """The volume for a claim of a pod that is being bound."""

    node: str
    volume: str  #: the volume of the claim; empty when one is provisioned


NONE: Final = Promise("", "")


class Promises:
    """By pod and claim. Of several pods that share a claim, the first by name counts."""

    def __init__(self) -> None:
        self._of_pod: dict[ObjectKey, Mapping[ObjectKey, Promise]] = {}
        self._of_claim: dict[ObjectKey, dict[ObjectKey, Promise]] = {}  # claim → pod
        self.taken: dict[str, int] = {}  #: volumes, with how many were promised them

    def put(self, pod: ObjectKey, promised: Mapping[ObjectKey, Promise]) -> list[tuple[ObjectKey, str]]:
        """The pod's promises are these and no others; the claims and volumes about which that is news."""
        before = self._of_pod.pop(pod, {})
        if promised:
            self._of_pod[pod] = promised
        if before == promised:
            return []
        changed = []
        for claim in sorted(before.keys() | promised.keys()):
            old, new = before.get(claim), promised.get(claim)
            if old == new:
                continue
            pods = self._of_claim.setdefault(claim, {})
            if old is not None:
                del pods[pod]
                self._count(old.volume, -1)
                changed.append((claim, old.volume))
            if new is not None:
                pods[pod] = new
                self._count(new.volume, 1)
                changed.append((claim, new.volume))
            if not pods:
                del self._of_claim[claim]
        return changed

    def for_claim(self, claim: ObjectKey) -> Promise:
        pods = self._of_claim.get(claim)
        return pods[min(pods)] if pods else NONE

    def of_claims(self) -> Iterator[tuple[ObjectKey, Promise]]:
        return ((claim, pods[min(pods)]) for claim, pods in self._of_claim.items())

    def _count(self, volume: str, change: int) -> None:
        if volume:
            now = self.taken.get(volume, 0) + change
            if now:
                self.taken[volume] = now
            else:
                del self.taken[volume]
