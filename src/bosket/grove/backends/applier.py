"""Brings the scheduler's objects of one gang to what a backend rendered: makes, changes, adopts, removes.

Level-triggered: it looks at what there is and writes what differs, nothing where nothing does. Objects go by the gang's
UID; a stranger of the wanted name is adopted only if nobody controls it.
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
        """How many writes it took. Raises `Conflict` where the cache was behind, `Refused` where a name is taken."""
        found = {(type(each), each.metadata.name): each for each in owned}
        writes = 0
        for each in wanted:
            present = found.pop((type(each), each.metadata.name), None)
            if present is None:
                self._observe(await self._make(gang, each))
                writes += 1
            elif not present.metadata.deletionTimestamp:  # when it is gone, we come again
                writes += await self._change(backend, present, each)
        return writes + await self.remove(tuple(found.values()))

    async def remove(self, objects: tuple[KubeObject, ...]) -> int:
        """How many objects were asked to go."""
        count = 0
        for each in reversed(objects):  # what was made last refers to what was made first
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
            return present  # ours, which the cache hadn't shown yet
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
