"""Applier: makes the scheduler's objects of a gang equal to a rendering: creates, updates, adopts, deletes.

Level-triggered: it compares with what exists and writes only differences. Objects belong to a gang by its UID; a
foreign object with a wanted name is adopted only if it has no controller.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bosket.api.grove import PodGang
from bosket.api.object import KubeObject
from bosket.api.ownership import controller_of, controller_reference
from bosket.api.table import resource_of
from bosket.grove.backends.backend import Refused, SchedulerBackend
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, NotFound

#: Told of each object that was written.
Observe = Callable[[KubeObject], None]


class Applier:
    """Writes the objects of gangs."""

    def __init__(self, client: Client, observe: Observe) -> None:
        self._client = client
        self._observe = observe

    async def apply(
        self,
        backend: SchedulerBackend,
        gang: PodGang,
        wanted: tuple[KubeObject, ...],
        owned: tuple[KubeObject, ...],
    ) -> int:
        """Returns the number of writes. Raises `Conflict` where the cache was behind, `Refused` where a name is
        taken."""
        found = {(type(each), each.metadata.name): each for each in owned}
        writes = 0
        for each in wanted:
            present = found.pop((type(each), each.metadata.name), None)
            if present is None:
                self._observe(await self._make(gang, each))
                writes += 1
            elif not present.metadata.deletionTimestamp:  # its deletion event enqueues the gang again
                writes += await self._change(backend, present, each)
        return writes + await self.remove(tuple(found.values()))

    async def remove(self, objects: tuple[KubeObject, ...]) -> int:
        """Deletes these objects; returns how many deletions were requested."""
        count = 0
        for each in reversed(objects):  # in reverse order: later objects refer to earlier ones
            if each.metadata.deletionTimestamp:
                continue
            try:
                await self._client.delete(
                    type(each), each.metadata.name, each.metadata.namespace, uid=each.metadata.uid
                )
            except NotFound:
                continue
            count += 1
        return count

    async def _make(self, gang: PodGang, wanted: KubeObject) -> KubeObject:
        try:
            return await self._client.create(wanted)
        except AlreadyExists:
            kind, key = type(wanted), wanted.key
            present = await self._client.get(kind, key.name, key.namespace)
        controller = controller_of(present)
        if controller is not None and controller.uid != gang.metadata.uid:
            taken = f"{resource_of(kind).group_resource} {key}"
            raise Refused(f"{taken} exists and is controlled by {controller.kind} {controller.name}", "NameTaken")
        if controller is not None:
            return present  # created by us; the cache hadn't shown it yet
        references = (*present.metadata.ownerReferences, controller_reference(gang))
        metadata = msgspec.structs.replace(present.metadata, ownerReferences=references)
        return await self._client.modify(present, msgspec.structs.replace(present, metadata=metadata))

    async def _change(self, backend: SchedulerBackend, present: KubeObject, wanted: KubeObject) -> int:
        after = backend.update(present, wanted)
        if after is None:
            return await self.remove((present,))
        if after == present:
            return 0
        self._observe(await self._client.modify(present, after))
        return 1
