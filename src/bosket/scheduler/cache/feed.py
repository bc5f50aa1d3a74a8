"""Watch events into the live state. Everything the scheduler knows of the cluster comes through here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bosket.api.core import ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue, Topology
from bosket.api.node_topology import NodeResourceTopology
from bosket.api.object import KubeObject
from bosket.api.policy import PodDisruptionBudget
from bosket.api.resource_k8s import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from bosket.api.table import resource_of
from bosket.kube.client import Client
from bosket.kube.codec import Kind, metadata_of
from bosket.kube.errors import KubeError
from bosket.kube.informer import Change, Informers
from bosket.scheduler.snapshot.state import ClusterState


def _all(_obj: KubeObject) -> bool:
    return True


class Feed:
    """Keeps a `ClusterState` true, and tells when it changed."""

    def __init__(
        self,
        informers: Informers,
        state: ClusterState,
        *,
        in_shard: Callable[[KubeObject], bool] = _all,
        budgets: bool = True,
    ) -> None:
        """`in_shard`: whether a node, a queue or a pod group is ours; `budgets`: whether disruption budgets matter."""
        self._informers, self._state = informers, state
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
        self._follow(NodeResourceTopology, optional=True)  # its definition is another project's
        # Of ConfigMaps only their existence matters, and their contents may be large.
        self._follow(ConfigMap, metadata_only=True)

    async def follow_devices(self, client: Client) -> None:
        """From now on, where the API server has dynamic resource allocation; a cluster without it has no devices."""
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

    def _follow(
        self,
        taken: type[KubeObject],
        *,
        metadata_only: bool = False,
        optional: bool = False,
        only: Callable[[KubeObject], bool] = _all,
    ) -> None:
        """`optional`: the server may not know the kind; `only`: others aren't there, and one that becomes so leaves."""
        kind: Kind[Any] = metadata_of(taken) if metadata_only else taken
        put, drop, _ = self._state.intake(taken)

        def handle(change: Change[Any]) -> None:
            old, new = change
            if new is not None and only(new):
                put(new)
            elif old is not None and only(old):
                drop(old)
            else:
                return
            self.changed.set()

        informer = self._informers.of(kind, optional=optional)
        informer.subscribe(handle)
        self._syncs.append(informer.wait_synced)


async def _served(client: Client, *kinds: type[KubeObject]) -> set[type[KubeObject]]:
    """Those of the kinds that the API server has; when it doesn't say, all: their watches will find out."""
    try:
        found = {(each.group, each.version, each.plural) for each in await client.discover()}
    except KubeError:
        return set(kinds)
    resources = {kind: resource_of(kind) for kind in kinds}
    return {kind for kind, each in resources.items() if (each.group, each.version, each.plural) in found}
