"""topology.node.k8s.io/v1alpha2: what each NUMA zone of a node has, and how its kubelet aligns pods to zones.

Written by a node feature discovery or a resource topology exporter, one object per node, under the node's name. The
definition is theirs and may not be installed.
"""

from __future__ import annotations

from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity
from bosket.api.resource import AnyResource, Resource


class AttributeInfo(Wire):
    """A name and a value."""

    name: str
    value: str


class CostInfo(Wire):
    """How far it is to another zone."""

    name: str
    value: int


class ResourceInfo(Wire):
    """How much of a resource a zone has, may give to pods, and has left."""

    name: str
    capacity: Quantity = "0"
    allocatable: Quantity = "0"
    available: Quantity = "0"


class Zone(Wire):
    """A part of a node; those of type `Node` are NUMA nodes."""

    name: str
    type: str
    parent: str = ""
    costs: tuple[CostInfo, ...] = ()
    attributes: tuple[AttributeInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()


class NodeResourceTopology(KubeObject):
    """A node's zones; the kubelet's policy and scope are among the attributes, or in the older `topologyPolicies`."""

    topologyPolicies: tuple[str, ...] = ()
    zones: tuple[Zone, ...] = ()
    attributes: tuple[AttributeInfo, ...] = ()


RESOURCES: tuple[AnyResource, ...] = (
    Resource(
        "topology.node.k8s.io",
        "v1alpha2",
        "NodeResourceTopology",
        "noderesourcetopologies",
        NodeResourceTopology,
        namespaced=False,
        short_names=("node-res-topo",),
    ),
)
