"""Koordinator's kinds that Grove's backend for it writes and reads.

Its PodGroup is that of the scheduler plugins (scheduling.sigs.k8s.io), with annotations of its own
(`gang.scheduling.koordinator.sh/…`). The definitions are Koordinator's, and may not be installed.
"""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire
from bosket.api.resource import AnyResource, Resource


class PodGroupSpec(Wire):
    """What a gang needs in order to run."""

    minMember: int = 0
    scheduleTimeoutSeconds: int | None = None


class PodGroupStatus(Wire):
    """How a gang fares."""

    phase: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(KubeObject):
    """Pods that Koordinator schedules together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class OwnPodGroup(PodGroup):
    """The same, of clusters that serve it in Koordinator's own API group."""


class NetworkTopologyLayer(Wire):
    """A level of the network, and the labels of nodes that say where they are in it."""

    topologyLayer: str
    parentTopologyLayer: str = ""
    labelKey: tuple[str, ...] = ()


class ClusterNetworkTopologySpec(Wire):
    """All levels."""

    networkTopologySpec: tuple[NetworkTopologyLayer, ...] = ()


class ClusterNetworkTopology(KubeObject):
    """The levels of a cluster's network."""

    spec: ClusterNetworkTopologySpec = ClusterNetworkTopologySpec()


RESOURCES: tuple[AnyResource, ...] = (
    Resource("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", PodGroup),
    Resource("scheduling.koordinator.sh", "v1alpha1", "PodGroup", "podgroups", OwnPodGroup),
    Resource(
        "scheduling.koordinator.sh",
        "v1alpha1",
        "ClusterNetworkTopology",
        "clusternetworktopologies",
        ClusterNetworkTopology,
        namespaced=False,
    ),
)
