"""Feed: puts watch events into the live state; the only way by which the scheduler learns about the cluster."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Set
from typing import Any, NamedTuple

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, Topology
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.api.table import resource_of
from bosket.kube.client import Client
from bosket.kube.codec import Kind, metadata_of
from bosket.kube.device_versions import spoken_versions
from bosket.kube.errors import KubeError
from bosket.kube.informer import Change, Informers, Store
from bosket.scheduler.framework.plugin import installed_plugins
from bosket.scheduler.io.lean_kinds import lean_kinds
from bosket.scheduler.io.spoilers import Entry, fill, find_spoilers
from bosket.scheduler.state.cluster_state import ClusterState

_log = logging.getLogger(__name__)

#: Recently changed objects that are suspected when a snapshot raises.
_MOST_SUSPECTS = 500
#: The garbage collector is frozen after so many objects of the first lists; small clusters don't get there.
_FROZEN_AT_ONCE = 1_000


def _all(_obj: KubeObject) -> bool:
    return True


class _Followed(NamedTuple):
    """The store of a kind, and which of its objects belong to this shard."""

    store: Store[Any]
    only: Callable[[KubeObject], bool]


class Feed:
    """Keeps a `ClusterState` up to date, and sets `changed`."""

    def __init__(
        self,
        informers: Informers,
        state: ClusterState,
        *,
        in_shard: Callable[[KubeObject], bool] = _all,
        budgets: bool = True,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`in_shard`: whether a node, queue or pod group belongs to this shard; `budgets`: whether disruption budgets
        are followed; `failed` is called with the kind of an object that the state could not take."""
        self._failed = failed
        # Objects that arrived since the last successful snapshot, the newest last.
        self._recent: OrderedDict[tuple[type[KubeObject], ObjectKey], KubeObject] = OrderedDict()
        # Objects that are left out of the state until they change or are deleted.
        self._left_out: set[tuple[type[KubeObject], ObjectKey]] = set()
        self._kinds: dict[type[KubeObject], _Followed] = {}
        self._informers, self._state = informers, state
        # Third-party plugins may read any field, so objects are kept whole then.
        self._lean = lean_kinds() if not installed_plugins() else {}
        self._is_synced = False
        self._listed = 0  # objects of the first lists so far
        self._follows_devices = False
        self._syncs: list[Callable[[], Awaitable[None]]] = []
        self.changed = asyncio.Event()
        self._follow(Node, only=in_shard)
        self._follow(PriorityClass)
        self._follow(Queue, only=in_shard)
        self._follow(Topology, optional=True)
        self._follow(BindRequest)
        self._follow(PodGroup, only=in_shard)
        if budgets:
            self._follow(PodDisruptionBudget)
        self._follow(Pod)
        self._follow(Namespace)
        self._follow(PersistentVolumeClaim)
        self._follow(PersistentVolume)
        self._follow(StorageClass)
        self._follow(CSINode)
        self._follow(CSIDriver)
        self._follow(CSIStorageCapacity)
        self._follow(NodeResourceTopology, optional=True)  # its CRD belongs to another project
        # Decisions depend only on the existence of ConfigMaps, and their contents may be large.
        self._follow(ConfigMap, metadata_only=True)

    async def follow_devices(self, client: Client) -> None:
        """Follows devices from now on, if the API server serves dynamic resource allocation."""
        if self._follows_devices:
            return
        served = await _served(client, ResourceClaim, DeviceTaintRule)
        if ResourceClaim not in served:
            return
        self._follows_devices = True
        self._follow(ResourceSlice)
        self._follow(DeviceClass)
        if DeviceTaintRule in served:
            self._follow(DeviceTaintRule)
        self._follow(ResourceClaim)

    async def wait_synced(self) -> None:
        for wait in self._syncs:
            await wait()
        self._is_synced = True
        try:
            for _ in self._state.warm_up():
                await asyncio.sleep(0)
        except Exception:  # the first cycle looks for the culprit
            _log.debug("the state can't be prepared before the first snapshot", exc_info=True)

    def _follow(
        self,
        taken: type[KubeObject],
        *,
        metadata_only: bool = False,
        optional: bool = False,
        only: Callable[[KubeObject], bool] = _all,
    ) -> None:
        """Subscribes to a kind. `optional`: the server may not serve it; `only`: objects for which it is False are
        dropped."""
        kind: Kind[Any] = metadata_of(taken) if metadata_only else taken
        handlers = self._state.handlers(taken)
        put, drop = handlers.put, handlers.drop

        def handle(change: Change[Any]) -> None:
            old, new = change
            try:
                if new is not None and only(new):
                    self._came(taken, new)
                    put(new)
                elif old is not None and only(old):
                    self._recent.pop((taken, old.key), None)
                    self._left_out.discard((taken, old.key))
                    drop(old)
                else:
                    return
            except Exception:
                self._give_up(taken, new if new is not None else old, is_gone=new is None)
            self.changed.set()

        informer = self._informers.of(kind, optional=optional, lean=self._lean.get(taken))
        informer.subscribe(handle)
        self._kinds[taken] = _Followed(informer.store, only)
        self._syncs.append(informer.wait_synced)

    def _came(self, kind: type[KubeObject], obj: KubeObject) -> None:
        if not self._is_synced:
            self._keep_collector_off()
        what, recent = (kind, obj.key), self._recent
        recent[what] = obj
        recent.move_to_end(what)
        if len(recent) > _MOST_SUSPECTS:
            recent.popitem(last=False)
        if self._left_out:
            self._left_out.discard(what)

    def _keep_collector_off(self) -> None:
        """Freezes the objects of the first lists: they stay, and the garbage collector would traverse them again and
        again, stopping the process for 50 ms and more with 40,000 pods."""
        self._listed += 1
        if self._listed % _FROZEN_AT_ONCE == 0:
            gc.freeze()

    @property
    def left_out(self) -> Set[tuple[type[KubeObject], ObjectKey]]:
        """Existing objects, by kind and key, that are not in the state because they can't be read or make the snapshot
        raise."""
        return self._left_out

    def looked_at(self) -> None:
        """A snapshot succeeded: clears the suspects."""
        self._recent.clear()

    def leave_out_latest(self, now: float, error: Exception) -> bool:
        """Leaves out those of the latest objects without which the snapshot succeeds, and puts the others back. False
        when there are none; then all are back."""
        latest = [Entry(kind, obj) for (kind, _), obj in reversed(self._recent.items())]
        batches, size = [], 1
        while latest:  # the newest object first, then more: dropping an object loses what the state derived from it
            batches.append(latest[:size])
            latest, size = latest[size:], size * 2
        search = find_spoilers(self._state, batches, now)
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: list[Entry] = end.value
                break
        for entry in found:
            self._leave_out(entry, error)
        return bool(found)

    async def leave_out_any(
        self, state: ClusterState, now: float, error: Exception, rest: Callable[[float], Awaitable[None]]
    ) -> bool:
        """The same for all objects, which takes long. `state`: an empty state for trials; `rest` pauses after so many
        seconds of work."""
        batches = [
            [Entry(taken, obj) for obj in store.values() if only(obj)] for taken, (store, only) in self._kinds.items()
        ]
        found: list[Entry] = []

        def search() -> Generator[None]:
            yield from fill(state, batches, now)
            found.extend((yield from find_spoilers(state, batches, now)))

        started = time.perf_counter()
        for _ in search():
            await rest(time.perf_counter() - started)
            started = time.perf_counter()
        # An object that changed meanwhile isn't the one that was tried.
        found = [entry for entry in found if self._kinds[entry.kind].store.get(entry.obj.key) is entry.obj]
        for entry in found:
            self._drop(entry.kind, entry.obj)
            self._leave_out(entry, error)
        return bool(found)

    def _leave_out(self, entry: Entry, error: Exception) -> None:
        name = entry.kind.__name__
        _log.error("%s %s is left out: the scheduler fails with it: %s", name, entry.obj.key, error)
        self._failed(name)
        self._left_out.add((entry.kind, entry.obj.key))
        self._recent.pop((entry.kind, entry.obj.key), None)

    def _give_up(self, kind: type[KubeObject], obj: Any, *, is_gone: bool) -> None:
        """The state could not take an object: forgets it."""
        _log.exception("%s %s is left out: the scheduler fails with it", kind.__name__, obj.key)
        self._failed(kind.__name__)
        if not is_gone:
            self._left_out.add((kind, obj.key))
        self._drop(kind, obj)

    def _drop(self, kind: type[KubeObject], obj: KubeObject) -> None:
        try:
            self._state.handlers(kind).drop(obj)
        except Exception:
            _log.exception("%s %s can't be dropped from the state, and may still count", kind.__name__, obj.key)


async def _served(client: Client, *kinds: type[KubeObject]) -> set[type[KubeObject]]:
    """The kinds that the API server serves; all of them if discovery fails, because their watches then show it."""
    try:
        found = {(each.group, each.version, each.plural) for each in await client.discover()}
    except KubeError:
        return set(kinds)
    resources = {kind: resource_of(kind) for kind in kinds}
    return {
        kind
        for kind, each in resources.items()
        if any((each.group, version, each.plural) in found for version in spoken_versions(each))
    }
