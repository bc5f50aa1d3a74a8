"""Watch events into the live state. Everything the scheduler knows of the cluster comes through here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

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

T = TypeVar("T", bound=KubeObject)


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
        self._follow(informers, Node, state.put_node, lambda node: state.drop_node(node.metadata.name), only=in_shard)
        self._follow(
            informers,
            PriorityClass,
            state.put_priority_class,
            lambda priority: state.drop_priority_class(priority.metadata.name),
        )
        self._follow(
            informers, Queue, state.put_queue, lambda queue: state.drop_queue(queue.metadata.name), only=in_shard
        )
        self._follow(
            informers,
            Topology,
            state.put_topology,
            lambda each: state.drop_topology(each.metadata.name),
            optional=True,
        )
        self._follow(informers, BindRequest, state.put_bind_request, state.drop_bind_request)
        self._follow(
            informers, PodGroup, state.put_pod_group, lambda group: state.drop_pod_group(group.key), only=in_shard
        )
        if budgets:
            self._follow(informers, PodDisruptionBudget, state.put_budget, lambda budget: state.drop_budget(budget.key))
        self._follow(informers, Pod, state.put_pod, lambda pod: state.drop_pod(pod.key))
        self._follow(
            informers, Namespace, state.put_namespace, lambda namespace: state.drop_namespace(namespace.metadata.name)
        )
        self._follow(informers, PersistentVolumeClaim, state.put_claim, lambda claim: state.drop_claim(claim.key))
        self._follow(
            informers, PersistentVolume, state.put_volume, lambda volume: state.drop_volume(volume.metadata.name)
        )
        self._follow(
            informers, StorageClass, state.put_storage_class, lambda each: state.drop_storage_class(each.metadata.name)
        )
        self._follow(informers, CSINode, state.put_csi_node, lambda each: state.drop_csi_node(each.metadata.name))
        self._follow(informers, CSIDriver, state.put_csi_driver, lambda each: state.drop_csi_driver(each.metadata.name))
        self._follow(
            informers,
            CSIStorageCapacity,
            state.put_storage_capacity,
            lambda each: state.drop_storage_capacity(each.key),
        )
        # Whose definition is another project's.
        self._follow(
            informers,
            NodeResourceTopology,
            state.put_node_topology,
            lambda each: state.drop_node_topology(each.metadata.name),
            optional=True,
        )
        # Of ConfigMaps only their existence matters, and their contents may be large.
        self._follow(
            informers, metadata_of(ConfigMap), state.put_config_map, lambda each: state.drop_config_map(each.key)
        )

    async def follow_devices(self, client: Client) -> None:
        """From now on, where the API server has dynamic resource allocation; a cluster without it has no devices."""
        if self._follows_devices:
            return
        served = await _served(client, ResourceClaim, DeviceTaintRule)
        if ResourceClaim not in served:
            return
        self._follows_devices = True
        informers, state = self._informers, self._state
        self._follow(
            informers,
            ResourceSlice,
            state.put_resource_slice,
            lambda each: state.drop_resource_slice(each.metadata.name),
        )
        self._follow(
            informers, DeviceClass, state.put_device_class, lambda each: state.drop_device_class(each.metadata.name)
        )
        if DeviceTaintRule in served:
            self._follow(
                informers, DeviceTaintRule, state.put_taint_rule, lambda each: state.drop_taint_rule(each.metadata.name)
            )
        self._follow(
            informers, ResourceClaim, state.put_resource_claim, lambda claim: state.drop_resource_claim(claim.key)
        )

    async def wait_synced(self) -> None:
        for wait in self._syncs:
            await wait()

    def _follow(
        self,
        informers: Informers,
        kind: Kind[T],
        put: Callable[[T], None],
        drop: Callable[[T], None],
        *,
        optional: bool = False,
        only: Callable[[T], bool] = _all,
    ) -> None:
        """`optional`: the server may not know the kind; `only`: others aren't there, and one that becomes so leaves."""

        def handle(change: Change[T]) -> None:
            old, new = change
            if new is not None and only(new):
                put(new)
            elif old is not None and only(old):
                drop(old)
            else:
                return
            self.changed.set()

        informer = informers.of(kind, optional=optional)
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
