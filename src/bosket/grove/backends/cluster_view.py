"""ClusterView: sets, pods and schedulers' objects that backends read, and which kinds the server serves.

Kinds are found by discovery and then watched. CRDs may be installed later, and servers may be restarted with other
versions: discovery is repeated every minute, which is two requests, and sooner when a kind was missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import PodCliqueSet, PodGang
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.ownership import controller_of
from bosket.api.table import resource_of
from bosket.grove.backends.backend import SchedulerBackend, Surroundings, identity
from bosket.grove.backends.former_place import former_gang
from bosket.kube.errors import KubeError
from bosket.kube.informer import Change, Informer
from bosket.runtime.service import Environment

_log = logging.getLogger(__name__)

BY_GANG: Final = "grove-backends/gang"
_BY_OWNER: Final = "grove-backends/owner"
_REFRESH_SECONDS: Final = 60.0
#: When something was missed.
_SOONER_SECONDS: Final = 15.0
#: A kind whose list takes longer counts as not served for now: the right to list it may be missing.
_LISTING_SECONDS: Final = 10.0

#: Told of a change of the scheduler's objects.
Handler = Callable[[Change[Any]], None]


class ClusterView:
    """The cluster as the backends of one process see it."""

    def __init__(
        self,
        env: Environment,
        backends: Iterable[SchedulerBackend],
        handler: Handler | None = None,
        served_changed: Callable[[], None] | None = None,
    ) -> None:
        """`served_changed` is called when kinds of the backends begin or cease to be served."""
        self._client = env.client
        self._clock = env.clock
        self._informers = env.informers
        self._backends = tuple(backends)
        self._handler = handler
        self._served_changed = served_changed
        self._sets = env.informers.of(PodCliqueSet, optional=True)
        self.pods = env.informers.of(Pod)
        self.pods.add_index(BY_GANG, gang_of_pod)
        self._watched: dict[type[KubeObject], Informer[Any]] = {}
        self._served: frozenset[tuple[str, str]] = frozenset()
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def wait_ready(self) -> None:
        """Waits until the watched kinds are synced."""
        await self.refresh()
        await self._sets.wait_synced()
        await self.pods.wait_synced()

    async def keep_fresh(self) -> None:
        """Repeats discovery until cancelled."""
        while True:
            await self._clock.sleep(_REFRESH_SECONDS)
            try:
                await self.refresh()
            except KubeError as error:
                _log.warning("discovery failed; it is retried", extra={"error": str(error)})

    async def refresh(self, *, missed: bool = False) -> None:
        """Runs discovery, unless it ran a moment ago; new kinds are watched, and synced on return."""
        async with self._asking:
            age = self._clock.monotonic() - self._asked
            if age < (_SOONER_SECONDS if missed else _REFRESH_SECONDS):
                return
            found = await self._client.discover()
            self._asked = self._clock.monotonic()
            served = frozenset((each.api_version, each.kind) for each in found)
            kinds = self._kinds(served)
            for kind in kinds:
                if kind not in self._watched:
                    informer = self._watched[kind] = self._informers.of(kind, optional=True)
                    informer.add_index(_BY_OWNER, _owner_uids)
                    if self._handler is not None:
                        informer.subscribe(self._handler)
            before, self._served = self._served, served - await self._unseen(kinds)
            if before and self._kinds(before) != self._kinds(self._served) and self._served_changed is not None:
                self._served_changed()

    async def _unseen(self, kinds: Iterable[type[KubeObject]]) -> set[tuple[str, str]]:
        """The kinds that are not synced after a while."""
        try:
            async with asyncio.timeout(_LISTING_SECONDS):
                for kind in kinds:
                    await self._watched[kind].wait_synced()
        except TimeoutError:
            unseen = {identity(kind) for kind in kinds if not self._watched[kind].synced}
            _log.warning("served kinds can't be listed", extra={"kinds": sorted(unseen)})
            return unseen
        return set()

    def surroundings(self, gang: PodGang, backend: SchedulerBackend) -> Surroundings:
        """What `backend` may read about the gang."""
        owner = self.owner(gang)
        former = former_gang(gang, owner)
        return Surroundings(
            served=self._served,
            owner=owner,
            owned=self.owned(gang, backend),
            pods=tuple(self.pods_of(gang.key)),
            former=tuple(self.pods_of(former)) if former is not None else (),
            related=tuple(
                each for kind in backend.reads if kind in self._watched for each in self._watched[kind].store.values()
            ),
        )

    def owned(self, gang: PodGang, backend: SchedulerBackend) -> tuple[KubeObject, ...]:
        """Objects of the backend's kinds that the gang owns, in the order of kinds and names."""
        return tuple(
            each
            for kind in backend.kinds_in(self._served)
            for each in sorted(
                self._watched[kind].store.by_index(_BY_OWNER, gang.metadata.uid), key=lambda found: found.key
            )
        )

    def owner(self, gang: PodGang) -> PodCliqueSet | None:
        """The set that controls the gang."""
        reference = controller_of(gang)
        if reference is None or reference.kind != resource_of(PodCliqueSet).kind:
            return None
        found = self._sets.store.get(ObjectKey(gang.metadata.namespace, reference.name))
        return found if found is not None and found.metadata.uid == reference.uid else None

    def pods_of(self, gang: ObjectKey) -> list[Pod]:
        """The pods that say they are the gang's."""
        return self.pods.store.by_index(BY_GANG, str(gang))

    def observe(self, written: KubeObject) -> None:
        """Puts the answer of an own write into the store."""
        informer = self._watched.get(type(written))
        if informer is not None:
            informer.store.put(written)

    def _kinds(self, served: frozenset[tuple[str, str]]) -> dict[type[KubeObject], None]:
        """Each once, in order."""
        made = (kind for backend in self._backends for kind in backend.kinds_in(served))
        read = (kind for backend in self._backends for kind in backend.reads if identity(kind) in served)
        return dict.fromkeys((*made, *read))


def gang_of_pod(pod: Pod) -> Iterable[str]:
    """Index value: the gang that a pod says it is of."""
    name = pod.metadata.labels.get(keys.GROVE_POD_GANG_LABEL)
    return (str(ObjectKey(pod.metadata.namespace, name)),) if name else ()


def _owner_uids(obj: KubeObject) -> Iterable[str]:
    return (reference.uid for reference in obj.metadata.ownerReferences)
