"""What a Config deploys, on an API server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apps import DaemonSet, Deployment
from bosket.api.core import Service, ServiceAccount
from bosket.api.kai.config import (
    AdmissionConfig,
    BinderConfig,
    Config,
    GlobalConfig,
    NumaPlacementExporterConfig,
    PodGrouperConfig,
    QueueControllerConfig,
)
from bosket.api.kai.operand import Image, PodDisruptionBudgetConfig, ServiceConfig, WebhookSwitch
from bosket.api.kai.shard import PluginConfig
from bosket.api.policy import PodDisruptionBudget
from bosket.services.operator import service
from bosket.testing.faults import FaultyTransport, hang_up, matching, refuse
from tests.operator.scene import become_available, condition, conditions_of, config, make_scene, names, raw, shard
from tests.rig import Rig

pytestmark = pytest.mark.looptime

OPERANDS = ["admission", "binder", "node-scale-adjuster", "pod-grouper", "podgroup-controller", "queue-controller"]


async def change(rig: Rig, **spec: Any) -> None:
    before = await rig.client.get(Config, "kai-config")
    await rig.client.modify(before, msgspec.structs.replace(before, spec=config(**spec).spec))


async def test_every_service_is_deployed_with_account_service_and_webhooks() -> None:
    rig = await make_scene()
    await rig.apply(config())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        assert await names(rig, Deployment) == OPERANDS
        assert await names(rig, Service) == OPERANDS
        assert await names(rig, ServiceAccount) == sorted([*OPERANDS, "scheduler"])
        assert await names(rig, MutatingWebhookConfiguration) == ["mutating-kai-admission"]
        assert await names(rig, ValidatingWebhookConfiguration) == [
            "kai-podgroup-validation-v2alpha2",
            "kai-queue-validation-v2",
            "validating-kai-admission",
        ]
        made = await raw(rig, Deployment, "binder")
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Config", "kai-config", True)
    assert made["metadata"]["labels"] == {"app": "binder", "app.kubernetes.io/managed-by": "kai-operator"}
    assert made["spec"]["replicas"] == 2
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["bosket", "run", "binder"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


async def test_conditions_name_the_operand_that_is_not_available_until_all_are() -> None:
    rig = await make_scene()
    await rig.apply(config())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        await become_available(rig, *(name for name in OPERANDS if name != "binder"))

        async def only_binder() -> bool:
            told = (await conditions_of(rig, config()))["Available"]
            return (told.status, told.message) == ("False", "Deployment [binder] is not available: 0 of 2 replicas")

        await rig.until(only_binder)
        await become_available(rig, "binder")
        ready = await condition(rig, config(), "Ready", "True")
        told = await conditions_of(rig, config())
    assert (ready.reason, ready.message) == ("ready", "System is ready")
    assert {name: (each.status, each.reason) for name, each in told.items()} == {
        "Reconciling": ("False", "reconciled"),
        "Deployed": ("True", "deployed"),
        "Available": ("True", "available"),
        "DependenciesFulfilled": ("True", "dependencies_fulfilled"),
        "Ready": ("True", "ready"),
    }


async def test_nothing_is_written_where_nothing_changed_also_by_the_next_process() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        await condition(rig, shard(), "Deployed", "True")
        await become_available(rig, *OPERANDS, "kai-scheduler-default")
        await condition(rig, shard(), "Ready", "True")
        await condition(rig, config(), "Ready", "True")
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(service, transport):
        await rig.clock.sleep(120)
    assert [(each.method, each.path) for each in transport.requests if each.method != "GET"] == []


async def test_what_others_changed_is_put_right_and_what_they_added_stays() -> None:
    rig = await make_scene()
    await rig.apply(config())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        await rig.client.patch(
            Deployment,
            "binder",
            {"metadata": {"annotations": {"theirs": "yes"}}, "spec": {"replicas": 7}},
            namespace="kai-scheduler",
        )
        await rig.client.delete(Service, "binder", "kai-scheduler")

        async def right() -> bool:
            return (await raw(rig, Deployment, "binder"))["spec"]["replicas"] == 2 and "binder" in await names(
                rig, Service
            )

        await rig.until(right)
        assert (await raw(rig, Deployment, "binder"))["metadata"]["annotations"]["theirs"] == "yes"


async def test_a_disabled_operand_and_what_is_no_longer_asked_for_go() -> None:
    rig = await make_scene()
    budget = ServiceConfig(podDisruptionBudget=PodDisruptionBudgetConfig(enabled=True))
    await rig.apply(config(podGrouper=PodGrouperConfig(service=budget), global_=GlobalConfig(nodeSelector={"a": "b"})))
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        assert await names(rig, PodDisruptionBudget) == ["pod-grouper"]
        assert (await raw(rig, Deployment, "binder"))["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
        off = ServiceConfig(enabled=False)
        checks = QueueControllerConfig(webhooks=WebhookSwitch(enableValidation=False))
        await change(rig, podGrouper=PodGrouperConfig(service=off), queueController=checks)
        await condition(rig, config(), "Deployed", "True")
        assert "pod-grouper" not in await names(rig, Deployment)
        assert "pod-grouper" not in await names(rig, ServiceAccount)
        assert await names(rig, PodDisruptionBudget) == []
        assert "kai-queue-validation-v2" not in await names(rig, ValidatingWebhookConfiguration)
        assert "nodeSelector" not in (await raw(rig, Deployment, "binder"))["spec"]["template"]["spec"]
        await change(rig, admission=AdmissionConfig(service=off))
        await condition(rig, config(), "Deployed", "True")
        assert await names(rig, MutatingWebhookConfiguration) == []


async def test_a_config_that_cannot_be_followed_names_the_field_and_changes_nothing() -> None:
    rig = await make_scene()
    await rig.apply(config())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        await change(rig, podGrouper=PodGrouperConfig(replicas=-1), global_=GlobalConfig(replicaCount=5))
        told = await condition(rig, config(), "Deployed", "False")
        assert told.message == "spec.podGrouper.replicas: is -1: it must be 0 or more"
        assert (await conditions_of(rig, config()))["Ready"].message == told.message
        assert (await raw(rig, Deployment, "binder"))["spec"]["replicas"] == 2


async def test_images_are_ours_unless_the_config_names_another_one_that_is_not_kais() -> None:
    rig = await make_scene()
    kais = ServiceConfig(image=Image(repository="kai", name="podgrouper", tag="v1"))
    other = ServiceConfig(image=Image(repository="mirror/x", tag="7"))
    await rig.apply(
        config(podGrouper=PodGrouperConfig(service=kais), queueController=QueueControllerConfig(service=other))
    )
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        images = {
            name: (await raw(rig, Deployment, name))["spec"]["template"]["spec"]["containers"][0]["image"]
            for name in ("pod-grouper", "queue-controller")
        }
    assert images == {"pod-grouper": "bosket:0.1.0", "queue-controller": "mirror/x/bosket:7"}


async def test_the_numa_exporter_comes_with_a_shard_that_looks_at_zones() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard())
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        assert await names(rig, DaemonSet) == []
        await rig.apply(shard("zones", partitionLabelValue="z", plugins={"numa": PluginConfig(enabled=True)}))

        async def there() -> bool:
            return await names(rig, DaemonSet) == ["numa-placement-exporter"]

        await rig.until(there)
        made = await raw(rig, DaemonSet, "numa-placement-exporter")
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"feature.node.kubernetes.io/memory-numa": "true"}


async def test_errors_conflicts_and_lost_answers_delay_and_change_nothing() -> None:
    rig = await make_scene()
    await rig.apply(config(), shard())
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH")
    for fault in (
        refuse(writes, 503, nth=2, times=6),
        refuse(writes, 409, reason="Conflict", nth=12),
        refuse(writes, 403, reason="Forbidden", nth=15, times=2),
        hang_up(writes, nth=20, after_effect=True),
        refuse(matching("PATCH", "/configs/kai-config/status"), 409, reason="Conflict"),
    ):
        transport.add(fault)
    async with rig.running(service, transport):
        await condition(rig, config(), "Deployed", "True")
        await condition(rig, shard(), "Deployed", "True")
        assert await names(rig, Deployment) == sorted([*OPERANDS, "kai-scheduler-default"])


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError")]
)
async def test_a_daemon_set_that_the_server_does_not_create_is_named_with_the_reason_until_it_is_there(
    code: int, reason: str
) -> None:
    """A quota, or a webhook of somebody else's that doesn't answer: whether it passes by itself nobody knows."""
    rig = await make_scene()
    section = NumaPlacementExporterConfig(service=ServiceConfig(enabled=True))
    await rig.apply(config(numaPlacementExporter=section))
    transport = FaultyTransport(rig.server.transport())
    fault = refuse(matching("PATCH", "/daemonsets/"), code, reason=reason, times=None)
    transport.add(fault)
    async with rig.running(service, transport):
        told = await condition(rig, config(), "Deployed", "False")
        assert f"DaemonSet kai-scheduler/numa-placement-exporter: {code} {reason}" in told.message
        assert "binder" in await names(rig, Deployment)
        fault.times = 0
        await condition(rig, config(), "Deployed", "True")
    assert await names(rig, DaemonSet) == ["numa-placement-exporter"]


async def test_a_failure_to_change_what_is_there_is_told_when_it_lasts() -> None:
    rig = await make_scene()
    await rig.apply(config(binder=BinderConfig(replicas=2)))
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(service, transport):
        await condition(rig, config(), "Deployed", "True")
        fault = refuse(matching("PATCH", "/deployments/binder"), 500, reason="InternalError", times=2)
        transport.add(fault)
        await rig.client.patch(Config, "kai-config", {"spec": {"binder": {"replicas": 3}}})
        seen = {(await condition(rig, config(), "Deployed", "True")).message}
        assert seen == {"Resources deployed"}
        transport.add(refuse(matching("PATCH", "/deployments/binder"), 500, reason="InternalError", times=None))
        await rig.client.patch(Config, "kai-config", {"spec": {"binder": {"replicas": 4}}})
        told = await condition(rig, config(), "Deployed", "False")
    assert told.message == "Deployment kai-scheduler/binder: 500 InternalError: injected"


async def test_an_object_that_the_server_does_not_delete_is_named_with_the_reason() -> None:
    rig = await make_scene()
    section = NumaPlacementExporterConfig(service=ServiceConfig(enabled=True))
    await rig.apply(config(numaPlacementExporter=section))
    transport = FaultyTransport(rig.server.transport())
    transport.add(refuse(matching("DELETE", "/daemonsets/"), 403, reason="Forbidden", times=None))
    async with rig.running(service, transport):
        await condition(rig, config(), "Deployed", "True")
        off = {"numaPlacementExporter": {"service": {"enabled": False}}}
        await rig.client.patch(Config, "kai-config", {"spec": off})
        told = await condition(rig, config(), "Deployed", "False")
    assert told.message == "DaemonSet kai-scheduler/numa-placement-exporter: 403 Forbidden: injected"
