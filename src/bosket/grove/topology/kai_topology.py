"""KAI's Topology of a ClusterTopologyBinding: of the same name, the same levels in the same order, and owned by it."""

from __future__ import annotations

from bosket.api.grove import ClusterTopologyBinding
from bosket.api.kai import Topology
from bosket.api.kai.topology import TopologyLevel, TopologySpec
from bosket.api.object import ObjectMeta
from bosket.api.ownership import controller_of, controller_reference


def desired_topology(binding: ClusterTopologyBinding) -> Topology:
    """The topology that should be there."""
    metadata = ObjectMeta(name=binding.metadata.name, ownerReferences=(controller_reference(binding),))
    levels = tuple(TopologyLevel(nodeLabel=level.key) for level in binding.spec.levels)
    return Topology(metadata=metadata, spec=TopologySpec(levels=levels))


def is_owned(topology: Topology, binding: ClusterTopologyBinding) -> bool:
    """Whether the topology was made for this very binding."""
    owner = controller_of(topology)
    return owner is not None and owner.uid == binding.metadata.uid


def agrees(topology: Topology, binding: ClusterTopologyBinding) -> bool:
    """Whether both have the same levels; what else a topology calls them doesn't matter."""
    labels = [level.nodeLabel for level in topology.spec.levels]
    return labels == [level.key for level in binding.spec.levels]
