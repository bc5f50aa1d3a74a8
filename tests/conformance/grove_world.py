"""The cluster that recorded Grove cases run on: kube-scheduler and kwok's nodes, as far as the cases show them.

Pods of other schedulers stay as they are: none ran when the cases were recorded. Nodes have no devices, and so no pod
with a claim fits. A pod that is bound runs and is ready at once, whatever its init containers wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bosket.api import quantity
from bosket.api.core import Pod
from bosket.api.crd import crd_manifest
from bosket.api.object import ObjectKey
from bosket.api.volcano import RESOURCES as VOLCANO
from bosket.kube.client import Client
from bosket.kube.errors import Conflict, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

NODES: Final = tuple(f"n{index}" for index in range(8))
_NODE_CPUS: Final = 64
_DEFAULT_SCHEDULER: Final = "default-scheduler"


def node_labels(index: int) -> dict[str, str]:
    return {
        "example.test/zone": f"z{index // 4}",
        "example.test/rack": f"r{index // 2}",
        "kubernetes.io/hostname": NODES[index],
    }


async def install_volcano(client: Client) -> None:
    """Volcano's kinds, of which the recorded cluster had the definitions."""
    for resource in VOLCANO:
        await client.create(crd_manifest(replace(resource, subresources=("status",))))


async def make_nodes(client: Client) -> None:
    for index, name in enumerate(NODES):
        amounts = {"cpu": str(_NODE_CPUS), "memory": "256Gi", "pods": "500"}
        node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": node_labels(index)},
        }
        ready = {"type": "Ready", "status": "True", "reason": "Recorded"}
        await client.create(node)
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await client.raw("PATCH", f"/api/v1/nodes/{name}/status", body={"status": status}, headers=_MERGE)


_MERGE: Final = {"Content-Type": "application/merge-patch+json"}


class NodesAndScheduler:
    """Binds pods of the default scheduler, runs what is bound, and ends what is deleted; a `Service`."""

    name = "recorded-world"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._pods = environment.informers.of(Pod)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,))

    async def run(self) -> None:
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> None:
        pod = self._pods.store.get(key)
        if pod is None:
            return
        try:
            await self._look_at(pod)
        except (NotFound, Conflict):
            return

    async def _look_at(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletionTimestamp is not None:
            await self._client.delete(Pod, meta.name, meta.namespace, grace_seconds=0, uid=meta.uid)
        elif pod.spec.nodeName:
            if pod.status.phase == "Pending":
                await self._write(pod, _running(pod))
        elif pod.spec.schedulerName == _DEFAULT_SCHEDULER and not pod.spec.schedulingGates:
            if _fits(pod):
                await self._client.bind(pod, NODES[0])
            elif not any(each.reason == "Unschedulable" for each in pod.status.conditions):
                await self._write(pod, {"conditions": [_condition("PodScheduled", "False", "Unschedulable")]})

    async def _write(self, pod: Pod, status: Mapping[str, Any]) -> None:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/status"
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        await self._client.raw("PATCH", path, body={"status": status}, headers=headers)


def _fits(pod: Pod) -> bool:
    requests = (each.resources.requests.get("cpu", "0") for each in pod.spec.containers)
    if sum(quantity.parse(each) for each in requests) > _NODE_CPUS or pod.spec.resourceClaims:
        return False
    wanted = pod.spec.nodeSelector.items()
    return any(wanted <= node_labels(index).items() for index in range(len(NODES)))


def _running(pod: Pod) -> dict[str, Any]:
    conditions = ("ContainersReady", "Initialized", "PodScheduled", "Ready")
    statuses = [
        {
            "name": each.name,
            "image": each.image,
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
        for each in pod.spec.containers
    ]
    return {
        "phase": "Running",
        "conditions": [_condition(each, "True") for each in conditions],
        "containerStatuses": statuses,
    }


def _condition(type_: str, status: str, reason: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason}
