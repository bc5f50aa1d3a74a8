"""ClusterTopologyBindings and the topologies that KAI gets: TAS1, TAS18 and TAS19 of Grove's list, and more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from bosket.api.core import Event
from bosket.api.crd import crd_manifests
from bosket.api.grove import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    SchedulerTopologyBinding,
    TopologyLevel,
)
from bosket.api.grove.operator_configuration import DEFAULT_SCHEDULER, KAI_SCHEDULER
from bosket.api.kai import Topology
from bosket.api.kai.topology import TopologyLevel as KaiLevel
from bosket.api.kai.topology import TopologySpec
from bosket.api.object import Condition, ObjectMeta
from bosket.grove.topology.controller import TopologyController
from bosket.kube.errors import NotFound
from bosket.runtime.service import Environment
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.grove_backends.scene import grove_rig
from tests.rig import Rig

pytestmark = pytest.mark.looptime

LEVELS = {"zone": "example.com/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"}


async def topology_rig() -> Rig:
    """A rig with Grove's kinds, and with KAI's Topology."""
    rig = await grove_rig()
    for manifest in crd_manifests():
        if manifest["spec"]["names"]["kind"] == "Topology":
            await rig.client.create(manifest)
    return rig


def binding(name: str = "t", levels: Mapping[str, str] = LEVELS, **bound: str) -> ClusterTopologyBinding:
    spec = ClusterTopologyBindingSpec(
        levels=tuple(TopologyLevel(domain=domain, key=key) for domain, key in levels.items()),
        schedulerTopologyBindings=tuple(
            SchedulerTopologyBinding(schedulerName=scheduler.replace("_", "-"), topologyReference=topology)
            for scheduler, topology in bound.items()
        ),
    )
    return ClusterTopologyBinding(metadata=ObjectMeta(name=name), spec=spec)


def topology(name: str, *labels: str) -> Topology:
    levels = tuple(KaiLevel(nodeLabel=label) for label in labels)
    return Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=levels))


def with_kai(env: Environment) -> TopologyController:
    return TopologyController(env, (DEFAULT_SCHEDULER, KAI_SCHEDULER))


def without_kai(env: Environment) -> TopologyController:
    return TopologyController(env, (DEFAULT_SCHEDULER,))


async def labels_of(rig: Rig, name: str = "t") -> list[str]:
    try:
        found = await rig.client.get(Topology, name)
    except NotFound:
        return []
    return [level.nodeLabel for level in found.spec.levels]


async def drift(rig: Rig, name: str = "t") -> Condition | None:
    found = await rig.client.get(ClusterTopologyBinding, name)
    return next(iter(found.status.conditions), None)


async def until_reason(rig: Rig, reason: str) -> Condition:
    async def has_reason() -> Condition | None:
        found = await drift(rig)
        return found if found is not None and found.reason == reason else None

    condition = await rig.until(has_reason)
    assert isinstance(condition, Condition)
    return condition


async def test_a_binding_makes_a_topology_of_its_name_with_its_labels_in_order() -> None:
    rig = await topology_rig()
    await rig.apply(binding())
    async with rig.running(with_kai):
        condition = await until_reason(rig, "InSync")
    assert (condition.type, condition.status) == ("SchedulerTopologyDrift", "False")
    assert await labels_of(rig) == list(LEVELS.values())
    made = await rig.client.get(Topology, "t")
    (owner,) = made.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.controller) == ("ClusterTopologyBinding", "t", True)
    status = (await rig.client.get(ClusterTopologyBinding, "t")).status
    assert status.observedGeneration == 1
    (told,) = status.schedulerTopologyStatuses
    assert (told.schedulerName, told.topologyReference, told.inSync) == (KAI_SCHEDULER, "t", True)


async def test_levels_that_change_make_the_topology_anew() -> None:
    rig = await topology_rig()
    await rig.apply(binding(levels={"zone": "example.com/zone", "host": "kubernetes.io/hostname"}))
    async with rig.running(with_kai):
        await until_reason(rig, "InSync")
        first = await rig.client.get(Topology, "t")
        found = await rig.client.get(ClusterTopologyBinding, "t")
        await rig.client.modify(found, replace(found, spec=binding().spec))

        async def is_new() -> bool:
            return await labels_of(rig) == list(LEVELS.values())

        await rig.until(is_new)

        async def is_observed() -> bool:
            return (await rig.client.get(ClusterTopologyBinding, "t")).status.observedGeneration == 2

        await rig.until(is_observed)
    assert (await rig.client.get(Topology, "t")).metadata.uid != first.metadata.uid
    found_drift = await drift(rig)
    assert found_drift is not None
    assert (found_drift.reason, found_drift.observedGeneration) == ("InSync", 2)


async def test_a_topology_that_somebody_deletes_comes_back() -> None:
    rig = await topology_rig()
    await rig.apply(binding())
    async with rig.running(with_kai):
        await until_reason(rig, "InSync")
        await rig.client.delete(Topology, "t")
        await rig.until(lambda: labels_of(rig))


async def test_somebody_elses_topology_is_only_compared() -> None:
    rig = await topology_rig()
    await rig.apply(binding(kai_scheduler="theirs"))
    async with rig.running(with_kai):
        assert (await until_reason(rig, "Drift")).status == "True"
        (told,) = (await rig.client.get(ClusterTopologyBinding, "t")).status.schedulerTopologyStatuses
        assert told.message == 'KAI Topology "theirs" not found'
        await rig.apply(topology("theirs", *LEVELS.values()))
        assert (await until_reason(rig, "InSync")).status == "False"
    assert await labels_of(rig) == []
    (told,) = (await rig.client.get(ClusterTopologyBinding, "t")).status.schedulerTopologyStatuses
    assert (told.inSync, told.schedulerBackendTopologyObservedGeneration) == (True, 1)
    reasons = [each.reason for each in (await rig.client.list(Event)).items]
    assert sorted(reasons) == ["TopologyDriftDetected", "TopologyInSync"]


async def test_a_topology_of_the_same_name_that_is_not_ours_is_left_alone() -> None:
    rig = await topology_rig()
    await rig.apply(topology("t", "example.com/other"), binding())
    async with rig.running(with_kai):
        await until_reason(rig, "Drift")
    assert await labels_of(rig) == ["example.com/other"]
    status = (await rig.client.get(ClusterTopologyBinding, "t")).status
    assert status.observedGeneration is None
    assert "is not owned by ClusterTopologyBinding t" in status.schedulerTopologyStatuses[0].message


async def test_a_bound_scheduler_that_is_not_enabled_is_told() -> None:
    rig = await topology_rig()
    await rig.apply(binding(kai_scheduler="theirs"))
    async with rig.running(without_kai):
        assert (await until_reason(rig, "TopologyNotFound")).status == "Unknown"


async def test_nothing_is_said_where_no_scheduler_has_topologies() -> None:
    rig = await topology_rig()
    await rig.apply(binding())
    async with rig.running(without_kai):

        async def is_observed() -> bool:
            return (await rig.client.get(ClusterTopologyBinding, "t")).status.observedGeneration == 1

        await rig.until(is_observed)
    assert await drift(rig) is None
    assert await labels_of(rig) == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_topology_that_can_not_be_read_or_made_is_told_and_tried_again(method: str) -> None:
    """Unit table "KAI topology: errors"; the generation counts as observed only when all is well."""
    rig = await topology_rig()
    await rig.apply(binding())
    path = "/topologies/t" if method == "GET" else "/topologies"
    fault = refuse(matching(method, path), 403, message="not today", times=None)
    async with rig.running(with_kai, FaultyTransport(rig.server.transport(), [fault])):
        await until_reason(rig, "Drift")
        status = (await rig.client.get(ClusterTopologyBinding, "t")).status
        assert status.observedGeneration is None
        assert "not today" in status.schedulerTopologyStatuses[0].message
        fault.times = 0
        await until_reason(rig, "InSync")
    assert await labels_of(rig) == list(LEVELS.values())


@pytest.mark.parametrize("method", ["DELETE", "POST"])
async def test_a_topology_that_can_not_be_made_anew_is_told_and_tried_again(method: str) -> None:
    """Unit table "KAI topology: errors": deleting the old one, making the new one."""
    rig = await topology_rig()
    await rig.apply(binding(levels={"zone": "example.com/zone"}))
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(with_kai, transport):
        await until_reason(rig, "InSync")
        fault = refuse(matching(method, "/topologies"), 403, message="not today", times=None)
        transport.add(fault)
        found = await rig.client.get(ClusterTopologyBinding, "t")
        await rig.client.modify(found, replace(found, spec=binding().spec))
        await until_reason(rig, "Drift")
        fault.times = 0
        await until_reason(rig, "InSync")
    assert await labels_of(rig) == list(LEVELS.values())


async def test_a_topology_of_somebody_else_that_differs_has_drifted() -> None:
    """Unit table "KAI topology: drift"; what it is called otherwise doesn't matter."""
    rig = await topology_rig()
    await rig.apply(topology("theirs", "example.com/zone"), binding(kai_scheduler="theirs"))
    async with rig.running(with_kai):
        await until_reason(rig, "Drift")
    (told,) = (await rig.client.get(ClusterTopologyBinding, "t")).status.schedulerTopologyStatuses
    assert (told.inSync, told.message) == (False, "KAI Topology levels differ from ClusterTopologyBinding levels")
