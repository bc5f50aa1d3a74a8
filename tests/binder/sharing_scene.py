"""Pods that share the GPUs of a simulated node, what asks for them to be bound, and what is left of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bosket.api import keys
from bosket.api.core import ConfigMap, Container, EnvVar, Namespace, Node, Pod, PodSpec, ServiceAccount
from bosket.api.kai import BindRequest, BindRequestSpec, ReceivedGPU
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.api.shared_gpu import gpu_groups
from bosket.embedded.gpu_devices import GpuDevices
from bosket.embedded.kubelet import Kubelet
from bosket.embedded.node import Layout, NodeShape, simulated_node
from bosket.kube.errors import NotFound
from tests.binder.scene import finished
from tests.rig import NAMESPACE, Rig, make_rig

NODE = "node-000"
RESERVATIONS = keys.RESERVATION_NAMESPACE


def gpu_node(gpus: int = 2) -> Node:
    return simulated_node(0, Layout(1), NodeShape(gpus=gpus, gpu_memory_mib=40000), 0.0)


def sharing_pod(
    name: str = "a",
    *,
    fraction: str = "0.25",
    devices: int = 1,
    env: tuple[EnvVar, ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    """A pod that asks for parts of GPUs, as admission leaves it."""
    said = {
        keys.GPU_FRACTION_ANNOTATION: fraction,
        keys.SHARED_GPU_CONFIG_MAP_ANNOTATION: f"{name}-shared-gpu",
        **({keys.GPU_FRACTION_DEVICES_ANNOTATION: str(devices)} if devices > 1 else {}),
        **(annotations or {}),
    }
    return Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, annotations=said, labels={"kept": "yes"}),
        spec=PodSpec(containers=(Container(name="main", image="img", env=env),), schedulerName="kai-scheduler"),
    )


async def share(
    rig: Rig,
    pod_name: str = "a",
    *groups: str,
    to: str = NODE,
    portion: str = "0.25",
    limit: int | None = None,
    name: str = "",
) -> BindRequest:
    """A request as the scheduler makes it for a pod that shares these groups."""
    uid = (await rig.client.get(Pod, pod_name, NAMESPACE)).metadata.uid
    return await rig.client.create(
        BindRequest(
            metadata=ObjectMeta(
                name=name or pod_name,
                namespace=NAMESPACE,
                ownerReferences=(OwnerReference(apiVersion="v1", kind="Pod", name=pod_name, uid=uid),),
            ),
            spec=BindRequestSpec(
                podName=pod_name,
                selectedNode=to,
                receivedResourceType="Fraction",
                receivedGPU=ReceivedGPU(count=len(groups), portion=portion),
                selectedGPUGroups=groups,
                backoffLimit=limit,
            ),
        )
    )


async def sharing_rig(*pods: Pod, gpus: int = 2) -> Rig:
    """A node with GPUs, the namespace for reservations, and the pods given or one called `a`."""
    account = ObjectMeta(name=keys.RESERVATION_SERVICE_ACCOUNT, namespace=RESERVATIONS)
    rig = await make_rig(
        [Namespace(metadata=ObjectMeta(name=RESERVATIONS)), ServiceAccount(metadata=account), gpu_node(gpus)],
        only="bindrequests",
    )
    await rig.apply(*(pods or (sharing_pod(),)))
    return rig


@asynccontextmanager
async def node_running(rig: Rig, *, with_devices: bool = True) -> AsyncIterator[None]:
    """The garbage collector, the node's kubelet, and what stands for its device plugin."""
    collecting = asyncio.create_task(rig.server.run())
    async with AsyncExitStack() as stack:
        stack.callback(collecting.cancel)
        await stack.enter_async_context(rig.running(Kubelet))
        if with_devices:
            await stack.enter_async_context(rig.running(GpuDevices))
        yield


@dataclass(frozen=True)
class Traces:
    """What GPU sharing has left in the cluster."""

    #: Groups with a reservation pod, and the device that it holds.
    reservations: Mapping[str, str]
    #: By pod: the groups it is labelled with.
    labels: Mapping[str, tuple[str, ...]]
    maps: frozenset[str]


NOTHING = Traces({}, {}, frozenset())


async def traces(rig: Rig) -> Traces:
    pods = (await rig.client.list(Pod)).items
    reservations = [pod for pod in pods if pod.metadata.namespace == RESERVATIONS]
    labelled = {pod.metadata.name: gpu_groups(pod.metadata.labels) for pod in pods if pod not in reservations}
    found = (await rig.client.list(ConfigMap, NAMESPACE)).items
    return Traces(
        reservations={
            pod.metadata.labels[keys.GPU_GROUP_LABEL]: pod.metadata.annotations.get(keys.RESERVED_GPU_ANNOTATION, "")
            for pod in reservations
        },
        labels={name: groups for name, groups in labelled.items() if groups},
        maps=frozenset(each.metadata.name for each in found),
    )


async def maps_of(rig: Rig, pod_name: str = "a", index: str = "0") -> tuple[dict[str, str], dict[str, str]]:
    """What is in the pod's ConfigMaps: for variables that name a key, and for the environment as a whole."""
    name = f"{pod_name}-shared-gpu-{index}"
    read = [await rig.client.get(ConfigMap, each, NAMESPACE) for each in (name, f"{name}-evar")]
    return read[0].data, read[1].data


async def the_pod(rig: Rig, name: str = "a") -> Pod:
    return await rig.client.get(Pod, name, NAMESPACE)


async def delete_pod(rig: Rig, name: str, namespace: str = NAMESPACE) -> None:
    await rig.client.delete(Pod, name, namespace, grace_seconds=0)


async def gone(rig: Rig, name: str, namespace: str = NAMESPACE) -> None:
    """Until the pod is not there any more."""

    async def look() -> bool:
        try:
            await rig.client.get(Pod, name, namespace)
        except NotFound:
            return True
        return False

    await rig.until(look)


async def settled_to(rig: Rig, wanted: Traces) -> None:
    """Until nothing but these traces are there."""

    async def look() -> bool:
        return await traces(rig) == wanted

    await rig.until(look)


async def bound(rig: Rig, *names: str) -> None:
    for name in names:
        await finished(rig, name)
