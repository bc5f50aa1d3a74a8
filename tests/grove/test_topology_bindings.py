"""TAS1 and TAS17 to TAS19: what ClusterTopologyBindings make of themselves, and what sets make of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bosket.api.core import Node
from bosket.api.grove import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    ClusterTopologyBindingStatus,
    SchedulerTopologyBinding,
    TopologyConstraint,
    TopologyLevel,
    TopologyPackConstraint,
)
from bosket.api.kai import PodGroup, Topology
from bosket.api.object import ObjectMeta
from bosket.kube.errors import NotFound
from tests.grove.sets import clique_set
from tests.grove.test_topology_aware import BINDING, BLOCK, HOST, LABELS, RACK, ZONE, role
from tests.grove.world import World, Worlds

pytestmark = pytest.mark.looptime

NVL_BLOCK, NVLINK = "example.com/nvl-block", "example.com/nvlink-domain"


def binding(name: str, levels: dict[str, str], bound_to: str = "") -> ClusterTopologyBinding:
    """Domains and their labels; `bound_to` is KAI's topology that somebody else keeps."""
    bound = (SchedulerTopologyBinding(schedulerName="kai-scheduler", topologyReference=bound_to),) if bound_to else ()
    spec = ClusterTopologyBindingSpec(
        levels=tuple(TopologyLevel(domain=domain, key=key) for domain, key in levels.items()),
        schedulerTopologyBindings=bound,
    )
    return ClusterTopologyBinding(metadata=ObjectMeta(name=name), spec=spec)


async def topology_labels(grove: World, name: str) -> list[str]:
    """The levels of KAI's topology; none where there is no such topology."""
    try:
        found = await grove.client.get(Topology, name)
    except NotFound:
        return []
    return [level.nodeLabel for level in found.spec.levels]


async def until_drift(grove: World, name: str, status: str, reason: str) -> ClusterTopologyBindingStatus:
    """Wait until a binding's generation was looked at, with this outcome."""

    async def said() -> ClusterTopologyBindingStatus | None:
        found = await grove.client.get(ClusterTopologyBinding, name)
        drift = {each.type: (each.status, each.reason) for each in found.status.conditions}
        is_so = (
            drift == {"SchedulerTopologyDrift": (status, reason)}
            and found.status.observedGeneration == found.metadata.generation
        )
        return found.status if is_so else None

    status_of = await grove.until(f"{name} {reason}", said)
    assert status_of is not None
    return status_of


async def test_a_binding_makes_a_topology_with_its_labels_in_order_which_nodes_carry(world: Worlds) -> None:
    """TAS1."""
    async with world(28, node_labels=LABELS) as grove:
        await grove.apply(BINDING)
        await until_drift(grove, "grove-topology", "False", "InSync")
        assert await topology_labels(grove, "grove-topology") == [ZONE, BLOCK, RACK, HOST]
        nodes = [await grove.client.get(Node, name) for name in grove.nodes]
        assert all(each.metadata.labels.keys() >= {ZONE, BLOCK, RACK, HOST} for each in nodes)


async def test_two_kinds_of_hardware_are_packed_each_by_its_own_labels(world: Worlds) -> None:
    """TAS17: the same word means another label in each binding, and each set uses its own."""
    h100 = [{RACK: f"h{index // 7}"} for index in range(14)]
    gb200 = [{NVL_BLOCK: f"g{index // 7}", NVLINK: f"n{index // 2}"} for index in range(14)]
    levels = {
        "h100": {"block": RACK, "host": HOST},
        "gb200": {"block": NVL_BLOCK, "rack": NVLINK, "host": HOST},
    }
    async with world(28, node_labels=[*h100, *gb200]) as grove:
        for name, each in levels.items():
            await grove.apply(binding(name, each))
        for name in levels:
            pack = TopologyConstraint(topologyName=name, pack=TopologyPackConstraint(required="block"))
            # As many pods as a domain has nodes: nothing less than all of one will do.
            await grove.apply(clique_set(name, role("w", 7, memory="80Mi"), topologyConstraint=pack))
        await grove.expect(14, 14)
        for name, each in levels.items():
            assert await topology_labels(grove, name) == list(each.values())
            groups = (await grove.client.list(PodGroup, grove.namespace)).items
            (group,) = [found for found in groups if found.metadata.ownerReferences[0].name == f"{name}-0"]
            assert group.spec.topologyConstraint is not None
            told = group.spec.topologyConstraint
            assert (told.topology, told.requiredTopologyLevel) == (name, each["block"])
            nodes = [await grove.client.get(Node, pod.spec.nodeName) for pod in await grove.pods(f"{name}-0-w")]
            assert len({node.metadata.labels[each["block"]] for node in nodes}) == 1


async def test_a_binding_to_a_topology_that_is_not_there_has_drifted(world: Worlds) -> None:
    """TAS18."""
    async with world(0) as grove:
        await grove.apply(binding("tas18", {"zone": ZONE, "rack": RACK}, bound_to="missing"))
        status = await until_drift(grove, "tas18", "True", "Drift")
        (told,) = status.schedulerTopologyStatuses
        assert (told.schedulerName, told.topologyReference, told.inSync) == ("kai-scheduler", "missing", False)
        assert await topology_labels(grove, "tas18") == [], "nothing is made where somebody else keeps it"


async def test_a_binding_whose_levels_change_makes_its_topology_anew(world: Worlds) -> None:
    """TAS19."""
    async with world(0) as grove:
        await grove.apply(binding("tas19", {"zone": ZONE, "rack": RACK}))
        await until_drift(grove, "tas19", "False", "InSync")
        assert await topology_labels(grove, "tas19") == [ZONE, RACK]
        before = await grove.client.get(ClusterTopologyBinding, "tas19")
        three = binding("tas19", {"zone": ZONE, "rack": RACK, "host": HOST})
        await grove.client.modify(before, replace(before, spec=three.spec))
        status = await until_drift(grove, "tas19", "False", "InSync")
        assert await topology_labels(grove, "tas19") == [ZONE, RACK, HOST]
        assert [each.inSync for each in status.schedulerTopologyStatuses] == [True]
