"""The GPUs of simulated nodes: their UUIDs, the pods that hold them, and the reports of reservation pods.

Stands for NVIDIA's device plugin, and for the program in reservation pods, on nodes where neither runs: in every
embedded cluster, and beside simulated nodes (kwok's) of a real control plane. A device has the same UUID as long as
its node has its name. Pods with whole GPUs hold devices too; which ones is kept here only, since nobody can see it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from bosket.api.core import Node, Pod
from bosket.api.keys import APP_LABEL, NVIDIA_GPU, RESERVATION_APP, RESERVED_GPU_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.api.quantity import to_milli
from bosket.embedded.admission import pod_requests
from bosket.embedded.node import NODE_INDEX, is_simulated, node_index
from bosket.kube.errors import NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment
from bosket.services.reservation import OwnPod, report_device

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "gpu.bosket.dev")
#: While all devices are taken, which happens only where no kubelet counts them.
_LOOK_AGAIN_SECONDS: Final = 1.0


def device_uuid(node: str, index: int) -> str:
    """The UUID of a simulated node's GPU, in NVIDIA's spelling."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"


class DeviceLedger:
    """Who holds which device, as far as anybody has asked."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}  # by node, then by the pod's uid

    def divide(self, node: str, capacity: int, pods: Iterable[Pod]) -> Mapping[str, tuple[str, ...]]:
        """The devices of each pod that runs on the node, by uid; those who had some keep them.

        A pod that there is no device for has none, or not all that it wants.
        """
        before = self._held.get(node, {})
        free = [device_uuid(node, index) for index in range(capacity)]
        held: dict[str, tuple[str, ...]] = {}
        for pod in sorted(pods, key=lambda pod: (not _known(pod), pod.metadata.uid not in before, pod.key)):
            uid, wanted = pod.metadata.uid, _gpus(pod)
            keep = [device for device in _known(pod) or before.get(uid, ()) if device in free]
            new = [device for device in free if device not in keep][: max(0, wanted - len(keep))]
            held[uid] = (*keep, *new)
            free = [device for device in free if device not in held[uid]]
        self._held[node] = held
        return held


class GpuDevices:
    """Says on behalf of reservation pods on simulated nodes which device they have; a `Service`."""

    name = "gpu-devices"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._ledger = DeviceLedger()
        self._pods = environment.informers.of(Pod)
        self._nodes = environment.informers.of(Node)
        self._pods.add_index(NODE_INDEX, node_index)
        # One worker: nobody else divides a node's devices meanwhile.
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=1, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if _awaits_device(pod) else ())

    async def run(self) -> None:
        """Until cancelled."""
        await self._nodes.wait_synced()
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None or not _awaits_device(pod):
            return None
        node = self._nodes.store.get(ObjectKey("", pod.spec.nodeName))
        if node is None or not is_simulated(node):
            return None
        neighbours = self._pods.store.by_index(NODE_INDEX, node.metadata.name)
        holders = [each for each in neighbours if each.status.phase == "Running" and _gpus(each)]
        capacity = to_milli(node.status.allocatable.get(NVIDIA_GPU, 0)) // 1000
        device = self._ledger.divide(node.metadata.name, capacity, holders).get(pod.metadata.uid)
        if not device:
            return _LOOK_AGAIN_SECONDS
        with suppress(NotFound):  # deleted meanwhile
            await report_device(self._client, OwnPod(*key), lambda: device[0])
        return None


def _awaits_device(pod: Pod) -> bool:
    """Whether it is a reservation pod whose program would be about to say which GPU it has."""
    return (
        pod.metadata.labels.get(APP_LABEL) == RESERVATION_APP
        and pod.status.phase == "Running"
        and pod.metadata.deletionTimestamp is None
        and not _known(pod)
    )


def _known(pod: Pod) -> tuple[str, ...]:
    device = pod.metadata.annotations.get(RESERVED_GPU_ANNOTATION)
    return (device,) if device else ()


def _gpus(pod: Pod) -> int:
    return pod_requests(pod).get(NVIDIA_GPU, 0) // 1000
