"""OwnerLookup: reads owners and other objects that groupers need: from the store for watched kinds, else from the API
server.

All pods of a gang ask for the same objects within moments, so an answer is cached for a second or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bosket.api.object import KubeObject, ObjectKey, OwnerReference
from bosket.kube.client import Client
from bosket.kube.errors import Forbidden, NotFound
from bosket.kube.informer import Informer
from bosket.runtime.clock import Clock
from bosket.runtime.keyed_lock import KeyedLock
from bosket.services.podgrouper.kind_directory import KindDirectory
from bosket.services.podgrouper.owner import GroupingError, GroupVersionKind, Owner

#: How long an owner that is not watched counts as known.
_FRESH_SECONDS: Final = 2.0


#: How long all objects of a kind count as known, or that there is no such kind.
_LISTED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Seen:
    owner: Owner
    read_at: float


@dataclass(frozen=True, slots=True)
class _Listed:
    owners: tuple[Owner, ...]
    read_at: float


class OwnerLookup:
    """Reads owners; the `OwnerReader` of the service."""

    def __init__(self, client: Client, clock: Clock, watched: Mapping[GroupVersionKind, Informer[KubeObject]]) -> None:
        self._client = client
        self._clock = clock
        self._watched = watched
        self._kinds = KindDirectory(client, clock)
        self._reading: KeyedLock[str] = KeyedLock()
        self._seen: dict[str, _Seen] = {}  # by uid or by kind and name, the oldest first
        self._listed: dict[GroupVersionKind, _Listed] = {}

    async def read(self, reference: OwnerReference, namespace: str) -> Owner:
        """The object that a reference means, or one of its name that is not the same any more."""
        gvk = GroupVersionKind.of(reference.apiVersion, reference.kind)
        informer = self._watched.get(gvk)
        if informer is not None:
            known = informer.store.get(ObjectKey(namespace, reference.name))
            if known is not None and known.metadata.uid == reference.uid:
                return Owner.typed(gvk, known)
            # Our watch of owners may be behind the watch of pods: only the server knows whether the owner is gone.
        async with self._reading.hold(reference.uid):
            known_owner = self._recall(reference.uid)
            if known_owner is None:
                known_owner = await self._fetch(gvk, reference.name, namespace)
                # By its own uid: one that isn't the owner any more is read again, until the pod follows it.
                self._keep(known_owner.metadata.uid, known_owner)
            return known_owner

    async def find(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner:
        """An object by its name."""
        key = f"{gvk} {namespace}/{name}"
        async with self._reading.hold(key):
            found = self._recall(key)
            if found is None:
                found = await self._fetch(gvk, name, namespace)
                self._keep(key, found)
            return found

    async def find_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        """All objects of a kind in the cluster; none where it isn't served, or may not be read."""
        async with self._reading.hold(str(gvk)):
            listed = self._listed.get(gvk)
            if listed is None or self._clock.monotonic() - listed.read_at >= _LISTED_SECONDS:
                listed = _Listed(await self._list(gvk), self._clock.monotonic())
                self._listed[gvk] = listed
            return listed.owners

    async def _list(self, gvk: GroupVersionKind) -> tuple[Owner, ...]:
        resource = await self._kinds.find(gvk)
        if resource is None:
            return ()
        try:
            found = await self._client.list(resource)
        except (Forbidden, NotFound):
            return ()
        return tuple(_owner(gvk, each) for each in found.items)

    async def _fetch(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner:
        resource = await self._kinds.find(gvk)
        if resource is None:
            raise GroupingError(
                f"{gvk.kind} {name} can't be read: "
                f"the API server doesn't serve the kind {gvk.kind} of {gvk.api_version}"
            )
        return _owner(gvk, await self._client.get(resource, name, namespace if resource.namespaced else None))

    def _keep(self, key: str, owner: Owner) -> None:
        self._seen[key] = _Seen(owner, self._clock.monotonic())

    def _recall(self, key: str) -> Owner | None:
        oldest = self._clock.monotonic() - _FRESH_SECONDS
        for stale in [each for each, seen in self._seen.items() if seen.read_at <= oldest]:
            del self._seen[stale]
        seen = self._seen.get(key)
        return seen.owner if seen is not None else None


def _owner(gvk: GroupVersionKind, found: KubeObject | dict[str, Any]) -> Owner:
    return Owner.typed(gvk, found) if isinstance(found, KubeObject) else Owner.untyped(gvk, found)
