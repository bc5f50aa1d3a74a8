"""Nodes."""

from __future__ import annotations

from bosket.api.core.affinity import Taint
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity


class ConfigMapNodeConfigSource(Wire):
    """A ConfigMap with a kubelet's configuration."""

    namespace: str
    name: str
    kubeletConfigKey: str
    uid: str = ""
    resourceVersion: str = ""


class NodeConfigSource(Wire):
    """Where a kubelet's configuration comes from."""

    configMap: ConfigMapNodeConfigSource | None = None


class NodePodPreemptionPolicy(Wire):
    """How pods of a node may be preempted."""

    disableResizePreemption: tuple[str, ...] = ()


class NodeSpec(Wire):
    """What is wanted of a node."""

    podCIDR: str = ""
    podCIDRs: tuple[str, ...] = ()
    providerID: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    configSource: NodeConfigSource | None = None
    externalID: str = ""
    podPreemptionPolicy: NodePodPreemptionPolicy | None = None


class DaemonEndpoint(Wire):
    """The port of a daemon."""

    Port: int


class NodeDaemonEndpoints(Wire):
    """The ports of a node's daemons."""

    kubeletEndpoint: DaemonEndpoint | None = None


class NodeRuntimeHandlerFeatures(Wire):
    """What a runtime handler can do."""

    recursiveReadOnlyMounts: bool | None = None
    userNamespaces: bool | None = None


class NodeRuntimeHandler(Wire):
    """A runtime of a node."""

    name: str = ""
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(Wire):
    """What a node's container runtime can do."""

    supplementalGroupsPolicy: bool | None = None


class NodeSwapStatus(Wire):
    """A node's swap."""

    capacity: int | None = None


class NodeSystemInfo(Wire):
    """Versions and identities of a node."""

    machineID: str
    systemUUID: str
    bootID: str
    kernelVersion: str
    osImage: str
    containerRuntimeVersion: str
    kubeletVersion: str
    kubeProxyVersion: str
    operatingSystem: str
    architecture: str
    swap: NodeSwapStatus | None = None
    runningInUserNamespace: bool | None = None


class NodeConfigStatus(Wire):
    """Which configuration a kubelet runs with."""

    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    lastKnownGood: NodeConfigSource | None = None
    error: str = ""


class AttachedVolume(Wire):
    """A volume attached to a node."""

    name: str
    devicePath: str


class ContainerImage(Wire):
    """An image that a node has."""

    names: tuple[str, ...] | None = ()
    sizeBytes: int = 0


class NodeCondition(Wire):
    """One observed aspect of a node."""

    type: str
    status: str
    lastHeartbeatTime: str | None = None
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Wire):
    """An address of a node."""

    type: str
    address: str


class NodeStatus(Wire):
    """What a node has, and how it is."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemonEndpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    nodeInfo: NodeSystemInfo | None = None
    images: tuple[ContainerImage, ...] = ()
    volumesInUse: tuple[str, ...] = ()
    volumesAttached: tuple[AttachedVolume, ...] = ()
    config: NodeConfigStatus | None = None
    runtimeHandlers: tuple[NodeRuntimeHandler, ...] = ()
    features: NodeFeatures | None = None
    declaredFeatures: tuple[str, ...] = ()


class Node(KubeObject):
    """A machine that runs pods."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
