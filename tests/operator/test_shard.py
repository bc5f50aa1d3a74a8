"""What a SchedulingShard deploys, on an API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from bosket.api.apps import Deployment
from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import ConfigMap, Container, Pod, PodSpec, Service
from bosket.api.discovery_k8s import EndpointSlice
from bosket.api.kai.config import SchedulerConfig
from bosket.api.kai.shard import MinRuntime, PlacementStrategy, SchedulingShard
from bosket.api.object import ObjectMeta
from bosket.operator import service
from tests.operator.scene import condition, conditions_of, config, make_scene, names, raw, shard
from tests.rig import Rig

pytestmark = pytest.mark.looptime


async def arguments(rig: Rig, name: str) -> list[str]:
    (container,) = (await raw(rig, Deployment, name))["spec"]["template"]["spec"]["containers"]
    found: list[str] = [*container["command"], *container["args"]]
    return found


async def test_each_shard_has_a_scheduler_with_its_own_settings() -> None:
    rig = await make_scene()
    spread = PlacementStrategy(gpu="spread")
    own = shard("a", partitionLabelValue="pool-a", placementStrategy=spread, args={"schedule-period": "2s", "v": "9"})
    await rig.apply(config(), shard(), own)
    async with rig.running(service):
        await condition(rig, shard(), "Deployed", "True")
        told = await condition(rig, own, "Deployed", "True")
        assert await names(rig, ConfigMap) == ["kai-scheduler-a", "kai-scheduler-default"]
        assert "--partition-label-value=" in await arguments(rig, "kai-scheduler-default")
        given = await arguments(rig, "kai-scheduler-a")
        assert given[:3] == ["bosket", "run", "scheduler"]
        assert {"--partition-label-value=pool-a", "--scheduler-name=kai-scheduler", "--schedule-period=2s"} <= {*given}
        assert not any(each.startswith("--v") for each in given)
        assert told.message.endswith("spec.args.v: the scheduler has no such flag; it is left out")
        written = yaml.safe_load((await raw(rig, ConfigMap, "kai-scheduler-a"))["data"]["config.yaml"])
        assert "consolidation" not in written["actions"]
        assert await names(rig, Service) != []
        assert (await raw(rig, Deployment, "kai-scheduler-a"))["spec"]["template"]["spec"][
            "serviceAccountName"
        ] == "scheduler"


async def test_another_configuration_makes_other_pods_and_the_same_one_does_not() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard())

    async def version() -> Any:
        template = (await raw(rig, Deployment, "kai-scheduler-default"))["spec"]["template"]
        return template["metadata"]["annotations"]["configMapVersion"]

    async with rig.running(service):
        await condition(rig, shard(), "Deployed", "True")
        first = await version()
        before = await rig.client.get(SchedulingShard, "default")
        wanted = msgspec.structs.replace(before.spec, minRuntime=MinRuntime(preemptMinRuntime="10m"))
        await rig.client.modify(before, msgspec.structs.replace(before, spec=wanted))
        await condition(rig, shard(), "Deployed", "True")
        assert await version() != first


async def test_the_service_of_replicas_leads_to_the_pod_that_holds_the_lease() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard("a", partitionLabelValue="pool-a"))
    async with rig.running(service):
        await condition(rig, shard("a"), "Deployed", "True")
        assert "selector" not in (await raw(rig, Service, "kai-scheduler-a"))["spec"]
        assert not (await raw(rig, EndpointSlice, "kai-scheduler-a-leader")).get("endpoints")
        pod = Pod(
            metadata=ObjectMeta(name="leader-0", namespace="kai-scheduler"),
            spec=PodSpec(containers=(Container(name="main", image="x"),)),
        )
        await rig.apply(pod)
        await rig.client.patch(
            Pod, "leader-0", {"status": {"podIP": "10.0.0.9"}}, namespace="kai-scheduler", subresource="status"
        )
        meta = ObjectMeta(name="kai-scheduler-pool-a", namespace="kai-scheduler")
        await rig.apply(Lease(metadata=meta, spec=LeaseSpec(holderIdentity="leader-0_1234")))

        async def found() -> bool:
            endpoints = (await raw(rig, EndpointSlice, "kai-scheduler-a-leader")).get("endpoints") or [{}]
            return bool(endpoints[0].get("addresses") == ["10.0.0.9"])

        await rig.until(found)
        await rig.client.patch(Lease, meta.name, {"spec": {"holderIdentity": "gone_1"}}, namespace="kai-scheduler")

        async def lost() -> bool:
            return not (await raw(rig, EndpointSlice, "kai-scheduler-a-leader")).get("endpoints")

        await rig.until(lost)


async def test_one_replica_is_found_by_its_label() -> None:
    rig = await make_scene()
    await rig.apply(config(scheduler=SchedulerConfig(replicas=1)), shard())
    async with rig.running(service):
        await condition(rig, shard(), "Deployed", "True")
        assert (await raw(rig, Service, "kai-scheduler-default"))["spec"]["selector"] == {
            "app": "kai-scheduler-default"
        }
        assert await names(rig, EndpointSlice) == []


async def test_a_shard_whose_nodes_are_anothers_says_so_and_gets_nothing() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard())
    await rig.clock.sleep(2)
    await rig.apply(shard("second"))
    async with rig.running(service):
        told = await condition(rig, shard("second"), "Deployed", "False")
        await condition(rig, shard(), "Deployed", "True")
    assert told.message == "spec.partitionLabelValue: is empty, which is SchedulingShard default's already"
    assert await names(rig, ConfigMap) == ["kai-scheduler-default"]


async def test_a_shard_waits_for_the_config() -> None:
    rig = await make_scene()
    await rig.apply(shard())
    async with rig.running(service):
        await condition(rig, shard(), "DependenciesFulfilled", "False")
        assert (await conditions_of(rig, shard()))["DependenciesFulfilled"].message == "Config kai-config doesn't exist"
        await rig.apply(config())
        await condition(rig, shard(), "Deployed", "True")
