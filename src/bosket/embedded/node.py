"""Simulated nodes as they register.

`EmbeddedCluster` makes its nodes from a `NodeShape`; the node lifecycle completes a Node that a user creates with
the annotation `bosket.dev/simulated: "true"`. Nothing here talks to a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from bosket import __version__
from bosket.api.condition import find_condition
from bosket.api.core import Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Pod
from bosket.api.keys import NODE_GPU_COUNT_LABEL, NODE_GPU_MEMORY_LABEL, NVIDIA_GPU
from bosket.api.object import ObjectMeta
from bosket.api.time import format_time

#: A Node with this annotation set to "true" is served by the embedded kubelet.
SIMULATED_ANNOTATION: Final = "bosket.dev/simulated"

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
RACK_LABEL: Final = "bosket.dev/rack"

#: Pods by the name of the node that they are bound to.
NODE_INDEX: Final = "embedded-node"

#: The pressures that a kubelet reports beside Ready, with the words it has for their absence.
_NO_PRESSURE: Final = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node of an embedded cluster has."""

    gpus: int = 8
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = 110
    gpu_product: str = "NVIDIA-H100-80GB-HBM3"
    gpu_memory_mib: int = 81559

    def capacity(self) -> dict[str, str]:
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods), "ephemeral-storage": "1Ti"}
        if self.gpus:
            resources[NVIDIA_GPU] = str(self.gpus)
        return resources

    def gpu_labels(self) -> dict[str, str]:
        """As NVIDIA's GPU feature discovery labels a node; none on a node without GPUs."""
        if not self.gpus:
            return {}
        return {
            NODE_GPU_COUNT_LABEL: str(self.gpus),
            NODE_GPU_MEMORY_LABEL: str(self.gpu_memory_mib),
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.gpu_product,
        }


def node_index(pod: Pod) -> tuple[str, ...]:
    """The key of a pod in `NODE_INDEX`."""
    return (pod.spec.nodeName,) if pod.spec.nodeName else ()


def is_simulated(node: Node) -> bool:
    """Whether the embedded kubelet serves the node."""
    return node.metadata.annotations.get(SIMULATED_ANNOTATION) == "true"


def is_ready(node: Node) -> bool:
    """Whether the node's Ready condition is True; a node without one is not ready."""
    return ready_status(node) == "True"


def ready_status(node: Node) -> str | None:
    """True, False or Unknown as the Ready condition says; None before the node registered."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready.status if ready is not None else None


def host_address(node: Node) -> str:
    """The node's internal address; empty before it registered."""
    return next((address.address for address in node.status.addresses if address.type == "InternalIP"), "")


@dataclass(frozen=True, slots=True)
class Layout:
    """How many nodes there are, and how they are spread: neighbours share a rack, neighbouring racks share a zone."""

    nodes: int
    racks: int = 1
    zones: int = 1

    def rack(self, index: int) -> int:
        return index * self.racks // self.nodes

    def zone(self, index: int) -> int:
        return self.rack(index) * self.zones // self.racks


def simulated_node(index: int, layout: Layout, shape: NodeShape, now: float) -> Node:
    """The node with that number, registered and ready for pods."""
    name = f"node-{index:03d}"
    labels = {
        **_kubelet_labels(name),
        ZONE_LABEL: f"zone-{layout.zone(index)}",
        RACK_LABEL: f"rack-{layout.rack(index)}",
        **shape.gpu_labels(),
    }
    return Node(
        metadata=ObjectMeta(name=name, labels=labels, annotations={SIMULATED_ANNOTATION: "true"}),
        spec=NodeSpec(),
        status=registered_status(name, NodeStatus(), index, shape, now),
    )


def registered_status(name: str, given: NodeStatus, index: int, shape: NodeShape, now: float) -> NodeStatus:
    """What a kubelet reports when it registers: `given` completed; what it already says stays."""
    capacity = {"pods": str(shape.pods), **(given.capacity or shape.capacity())}
    reported = {condition.type: condition for condition in _healthy_conditions(now)}
    reported.update((condition.type, condition) for condition in given.conditions)
    addresses = given.addresses or (
        NodeAddress(type="InternalIP", address=_node_address(index)),
        NodeAddress(type="Hostname", address=name),
    )
    return replace(
        given,
        capacity=capacity,
        allocatable=given.allocatable or dict(capacity),
        conditions=tuple(reported.values()),
        addresses=addresses,
        nodeInfo=given.nodeInfo or _system_info(name),
    )


def registered_labels(node: Node, shape: NodeShape) -> dict[str, str]:
    """The labels that a kubelet and the GPU feature discovery put on a node, beside those it has."""
    gpu_labels = {} if node.status.capacity else shape.gpu_labels()
    return {**_kubelet_labels(node.metadata.name), **gpu_labels, **node.metadata.labels}


def _kubelet_labels(name: str) -> dict[str, str]:
    return {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}


def _node_address(index: int) -> str:
    """An address of 172.16.0.0/12, which has room for a million nodes; the pods' are in 10.0.0.0/8."""
    number = index + 1
    return f"172.{16 + (number >> 16) % 16}.{(number >> 8) % 256}.{number % 256}"


def _healthy_conditions(now: float) -> list[NodeCondition]:
    at = format_time(now)
    return [
        *(
            NodeCondition(
                type=pressure,
                status="False",
                reason=reason,
                message=message,
                lastHeartbeatTime=at,
                lastTransitionTime=at,
            )
            for pressure, reason, message in _NO_PRESSURE
        ),
        NodeCondition(
            type="Ready",
            status="True",
            reason="KubeletReady",
            message="kubelet is posting ready status",
            lastHeartbeatTime=at,
            lastTransitionTime=at,
        ),
    ]


def _system_info(name: str) -> NodeSystemInfo:
    return NodeSystemInfo(
        machineID=name,
        systemUUID=name,
        bootID=name,
        kernelVersion="simulated",
        osImage="Bosket simulated node",
        containerRuntimeVersion=f"bosket://{__version__}",
        kubeletVersion=f"v{__version__}-bosket",
        kubeProxyVersion="",
        operatingSystem="linux",
        architecture="amd64",
    )
