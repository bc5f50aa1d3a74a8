"""Finds owners in the cluster: in memory for the kinds that are watched, by asking the API server for all others.

All pods of a gang ask for the same owners within moments, so an answer serves for a second or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bosket.api.object import KubeObject, ObjectKey, OwnerReference
from bosket.kube.client import Client
from bosket.kube.informer import Informer
from bosket.podgrouper.kind_directory import KindDirectory
from bosket.podgrouper.owner import GroupingError, GroupVersionKind, Owner
from bosket.runtime.clock import Clock
from bosket.runtime.keyed_lock import KeyedLock

#: How long an owner that is not watched counts as known.
_FRESH_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Seen:
    owner: Owner
    read_at: float


class OwnerLookup:
    """Reads owners; the `OwnerReader` of the service."""

    def __init__(self, client: Client, clock: Clock, watched: Mapping[GroupVersionKind, Informer[KubeObject]]) -> None:
        self._client = client
        self._clock = clock
        self._watched = watched
        self._kinds = KindDirectory(client, clock)
        self._reading: KeyedLock[str] = KeyedLock()
        self._seen: dict[str, _Seen] = {}  # by uid, the oldest first

    async def read(self, reference: OwnerReference, namespace: str) -> Owner:
        """The object that a reference means, or one of its name that is not the same any more."""
        gvk = GroupVersionKind.of(reference.apiVersion, reference.kind)
        informer = self._watched.get(gvk)
        if informer is not None:
            known = informer.store.get(ObjectKey(namespace, reference.name))
            if known is not None and known.metadata.uid == reference.uid:
                return Owner.typed(gvk, known)
            # Our watch may be behind the pod's: only the server knows whether the owner is gone.
        async with self._reading.hold(reference.uid):
            return self._recall(reference.uid) or await self._fetch(gvk, reference, namespace)

    async def _fetch(self, gvk: GroupVersionKind, reference: OwnerReference, namespace: str) -> Owner:
        resource = await self._kinds.find(gvk)
        if resource is None:
            raise GroupingError(
                f"owner {gvk.kind} {reference.name} can't be read: "
                f"the API server doesn't serve the kind {gvk.kind} of {gvk.api_version}"
            )
        found: KubeObject | dict[str, Any] = await self._client.get(
            resource, reference.name, namespace if resource.namespaced else None
        )
        owner = Owner.typed(gvk, found) if isinstance(found, KubeObject) else Owner.untyped(gvk, found)
        self._seen[owner.metadata.uid] = _Seen(owner, self._clock.monotonic())
        return owner

    def _recall(self, uid: str) -> Owner | None:
        oldest = self._clock.monotonic() - _FRESH_SECONDS
        for stale in [key for key, seen in self._seen.items() if seen.read_at <= oldest]:
            del self._seen[stale]
        seen = self._seen.get(uid)
        return seen.owner if seen is not None else None
