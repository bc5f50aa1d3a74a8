"""What a SchedulingShard deploys, on an API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from bosket.api.apps import Deployment
from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import ConfigMap, Container, Pod, PodSpec, Service, ServiceAccount
from bosket.api.discovery_k8s import EndpointSlice
from bosket.api.kai.config import Config, SchedulerConfig
from bosket.api.kai.operand import ServiceConfig
from bosket.api.kai.shard import MinRuntime, PlacementStrategy, SchedulingShard
from bosket.api.object import ObjectMeta
from bosket.api.time import format_micro_time
from bosket.services.operator import service
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


@pytest.mark.parametrize(
    ("value", "source"),
    [("emptyDir", {"emptyDir": {}}), ("claim/flights", {"persistentVolumeClaim": {"claimName": "flights"}})],
)
async def test_a_shard_that_records_its_cycles_has_a_volume_for_them(value: str, source: dict[str, Any]) -> None:
    rig = await make_scene()
    own = shard("a", partitionLabelValue="pool-a", args={"record": value, "record-most": "1Gi"})
    await rig.apply(config(), own)
    async with rig.running(service):
        await condition(rig, own, "Deployed", "True")
        assert {"--record=/recording", "--record-most=1Gi"} <= {*await arguments(rig, "kai-scheduler-a")}
        pod = (await raw(rig, Deployment, "kai-scheduler-a"))["spec"]["template"]["spec"]
        assert {"name": "recording", **source} in pod["volumes"]
        assert {"name": "recording", "mountPath": "/recording"} in pod["containers"][0]["volumeMounts"]


async def test_other_settings_make_no_other_pods_and_other_flags_do() -> None:
    """The scheduler follows its ConfigMap while it runs; flags are read at its start."""
    rig = await make_scene()
    await rig.apply(config(), shard())

    async def generation() -> Any:
        return (await raw(rig, Deployment, "kai-scheduler-default"))["metadata"]["generation"]

    async def change(**spec: Any) -> None:
        before = await rig.client.get(SchedulingShard, "default")
        wanted = msgspec.structs.replace(before.spec, **spec)
        await rig.client.modify(before, msgspec.structs.replace(before, spec=wanted))
        await condition(rig, shard(), "Deployed", "True")

    async with rig.running(service):
        await condition(rig, shard(), "Deployed", "True")
        first = await generation()
        assert "--scheduler-config-map=kai-scheduler-default" in await arguments(rig, "kai-scheduler-default")
        await change(minRuntime=MinRuntime(preemptMinRuntime="10m"))
        assert "10m" in (await raw(rig, ConfigMap, "kai-scheduler-default"))["data"]["config.yaml"]
        assert await generation() == first
        await change(args={"schedule-period": "2s"})
        assert await generation() != first


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


async def test_schedulers_go_and_come_back_with_the_switch_in_the_config_which_the_shard_tells() -> None:
    rig = await make_scene()
    off = SchedulerConfig(service=ServiceConfig(enabled=False))
    await rig.apply(config(), shard())
    async with rig.running(service):
        await condition(rig, shard(), "Deployed", "True")
        found = await rig.client.get(Config, "kai-config")
        await rig.client.modify(found, msgspec.structs.replace(found, spec=config(scheduler=off).spec))

        async def gone() -> bool:
            kinds = (Deployment, ConfigMap, Service, EndpointSlice)
            return not [name for kind in kinds for name in await names(rig, kind) if "kai-scheduler-default" in name]

        await rig.until(gone)

        async def told() -> bool:
            said = (await conditions_of(rig, shard()))["Deployed"].message
            return said.endswith("no scheduler is deployed: spec.scheduler.service.enabled of the Config is false")

        await rig.until(told)
        assert "scheduler" not in await names(rig, ServiceAccount)
        mentioned = await condition(rig, config(), "Deployed", "True")
        assert mentioned.message.endswith("is false: no SchedulingShard has a scheduler")
        found = await rig.client.get(Config, "kai-config")
        await rig.client.modify(found, msgspec.structs.replace(found, spec=config().spec))

        async def back() -> bool:
            return "kai-scheduler-default" in await names(rig, Deployment)

        await rig.until(back)


async def test_the_lease_of_a_deleted_shard_goes_with_it_once_nobody_holds_it() -> None:
    """Also one that a scheduler makes anew while it ends."""
    rig = await make_scene()
    await rig.apply(config(), shard(), shard("a", partitionLabelValue="pool-a"))
    meta = ObjectMeta(name="kai-scheduler-pool-a", namespace="kai-scheduler")
    held = LeaseSpec(
        holderIdentity="gone_1", leaseDurationSeconds=15, renewTime=format_micro_time(rig.clock.now() + 20)
    )
    others = ObjectMeta(name="kai-scheduler", namespace="kai-scheduler")

    async def leases() -> set[str]:
        return {each.metadata.name for each in (await rig.client.list(Lease, "kai-scheduler")).items}

    async with rig.running(service):
        await condition(rig, shard("a"), "Deployed", "True")
        await rig.apply(Lease(metadata=meta, spec=held), Lease(metadata=others, spec=held))

        async def owned() -> bool:
            owners = (await rig.client.get(Lease, meta.name, meta.namespace)).metadata.ownerReferences
            return [each.kind for each in owners] == ["SchedulingShard"]

        await rig.until(owned)
        await rig.client.delete(SchedulingShard, "a")
        await rig.clock.sleep(5)
        assert await leases() == {meta.name, others.name}
        await rig.clock.sleep(60)
        assert await leases() == {others.name}
        await rig.apply(Lease(metadata=meta, spec=LeaseSpec(holderIdentity="")))

        async def gone() -> bool:
            return await leases() == {others.name}

        await rig.until(gone)
