"""Owned: the operator's objects: watched by informers, applied from manifests, deleted when no owner wants them.

An object that is as wanted isn't written. Writes use server-side apply: fields of other managers stay, fields that are
no longer in the manifest are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bosket.api.object import ObjectKey
from bosket.kube.client import Client, PatchType
from bosket.kube.codec import identify
from bosket.kube.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests
from bosket.kube.informer import Change, Informer, Informers
from bosket.services.operator.kind import KINDS, OPTIONAL, Dynamic, kind_of
from bosket.services.operator.manifest import MANAGED_BY_LABEL, MANAGER, Manifest, finished, shows

_log = logging.getLogger(__name__)

#: Who our fields belong to.
FIELD_MANAGER: Final = MANAGER
#: Attempts in a row after which a failure is reported although the old object still exists.
_TOLD_FAILURES: Final = 3


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that the server didn't take."""

    what: str
    error: str

    def __str__(self) -> str:
        return f"{self.what}: {self.error}"


@dataclass(slots=True)
class Applied:
    """What came of applying an owner's objects."""

    #: Writes that the server refused, with the reason; conditions report them.
    refused: list[Refused] = field(default_factory=list)
    #: The first failure that isn't the object's: another attempt is due, after a back-off.
    failure: ApiError | None = None


class Owned:
    """All objects that carry the operator's label."""

    def __init__(self, client: Client, informers: Informers, namespace: str) -> None:
        """`namespace`: where all of them are that can be in one."""
        self._client = client
        label = f"{MANAGED_BY_LABEL}={MANAGER}"
        self._informers: dict[Dynamic, Informer[dict[str, Any]]] = {
            kind: informers.of(
                kind, namespace=namespace if kind.namespaced else None, labels=label, optional=kind in OPTIONAL
            )
            for kind in KINDS
        }
        # Attempts in a row that failed, though nothing is wrong with the object.
        self._failures: dict[tuple[Dynamic, ObjectKey], int] = {}

    def subscribe(self, changed: Callable[[Manifest], None]) -> None:
        """`changed` is called with the owner reference of every object that changed, came or went."""

        def handle(change: Change[dict[str, Any]]) -> None:
            for version in change:
                for reference in _owners(version) if version is not None else ():
                    changed(reference)

        for informer in self._informers.values():
            informer.subscribe(handle)

    async def wait_synced(self) -> None:
        for informer in self._informers.values():
            await informer.wait_synced()

    def live(self, manifest: Manifest) -> dict[str, Any] | None:
        """The object as it is known; None while it isn't there."""
        return self._informers[kind_of(manifest)].store.get(identify(manifest).key)

    async def apply(self, desired: Iterable[Manifest], owner: Manifest) -> Applied:
        """Makes the owner's objects like these and deletes its others; what a server refuses doesn't stop the rest."""
        applied = Applied()
        wanted: set[tuple[Dynamic, ObjectKey]] = set()
        for manifest in desired:
            kind, key = kind_of(manifest), identify(manifest).key
            wanted.add((kind, key))
            await self._attempt(kind, key, self._make(kind, key, finished(manifest, owner)), applied)
        for kind, key, found in self._of(owner["uid"]):
            if (kind, key) not in wanted:
                await self._attempt(kind, key, self._delete(kind, key, found), applied)
        return applied

    async def _attempt(self, kind: Dynamic, key: ObjectKey, write: Awaitable[None], applied: Applied) -> None:
        failures = self._failures.pop((kind, key), 0)
        try:
            await write
        except (Conflict, ServerError, TooManyRequests) as error:
            # Nothing is wrong with the object, and the next attempt may succeed: conditions don't turn for a single
            # answer. A missing object is reported at once.
            self._failures[kind, key] = failures + 1
            applied.failure = applied.failure or error
            if failures + 1 >= _TOLD_FAILURES or self._informers[kind].store.get(key) is None:
                applied.refused.append(Refused(f"{kind.kind} {key}", str(error)))
        except ApiError as error:
            applied.refused.append(Refused(f"{kind.kind} {key}", str(error)))

    async def _make(self, kind: Dynamic, key: ObjectKey, manifest: Manifest) -> None:
        store = self._informers[kind].store
        live = store.get(key)
        if live is not None and shows(live, manifest):
            return
        written = await self._client.patch(
            kind,
            key.name,
            manifest,
            namespace=key.namespace or None,
            type=PatchType.APPLY,
            field_manager=FIELD_MANAGER,
            force=True,
        )
        _log.info("applied", extra={"kind": kind.kind, "object": str(key)})
        store.put(written)

    async def _delete(self, kind: Dynamic, key: ObjectKey, found: dict[str, Any]) -> None:
        uid = found["metadata"].get("uid")
        try:
            await self._client.delete(kind, key.name, key.namespace or None, uid=uid)
        except NotFound:
            pass
        else:
            _log.info("deleted: no owner wants it", extra={"kind": kind.kind, "object": str(key)})
        self._informers[kind].store.discard(key, uid)

    def _of(self, uid: str) -> Iterator[tuple[Dynamic, ObjectKey, dict[str, Any]]]:
        for kind, informer in self._informers.items():
            for found in list(informer.store.values()):
                if any(each.get("uid") == uid for each in _owners(found)):
                    yield kind, identify(found).key, found


def _owners(obj: dict[str, Any]) -> Iterable[Manifest]:
    return obj["metadata"].get("ownerReferences") or ()
