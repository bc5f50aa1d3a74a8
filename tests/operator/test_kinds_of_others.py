"""Service monitors, a Prometheus and vertical autoscalers: made as soon as the API server has the kinds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bosket.api.core import Service
from bosket.api.kai.config import (
    Config,
    ExternalPrometheusHealthProbe,
    GlobalConfig,
    PrometheusConfig,
    ServiceMonitorConfig,
)
from bosket.api.kai.operand import VPASpec
from bosket.api.resource import AnyResource
from bosket.services.operator import service
from bosket.services.operator.kind import AUTOSCALER, PROMETHEUS, SERVICE_MONITOR
from tests.operator.scene import condition, conditions_of, config, make_scene, names, raw, shard
from tests.rig import Rig

ALL_SERVICES = [
    "admission",
    "binder",
    "kai-scheduler-default",
    "node-scale-adjuster",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
]


async def define(rig: Rig, *resources: AnyResource) -> None:
    """As another project's installation does."""
    schema: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for each in resources:
        version = {"name": each.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {
            "group": each.group,
            "names": {"kind": each.kind, "plural": each.plural, "singular": each.singular},
            "scope": "Namespaced",
            "versions": [version],
        }
        await rig.client.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"{each.plural}.{each.group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
                },
                "spec": spec,
            }
        )


@pytest.mark.looptime
async def test_what_is_missing_is_named_and_made_when_it_comes() -> None:
    rig = await make_scene()
    wanted = config(prometheus=PrometheusConfig(enabled=True), global_=GlobalConfig(vpa=VPASpec(enabled=True)))
    await rig.apply(wanted, shard())
    async with rig.running(service):
        told = await condition(rig, wanted, "DependenciesFulfilled", "False")
        assert told.reason == "dependencies_missing"
        assert told.message.splitlines() == [
            "ServiceMonitor (monitoring.coreos.com/v1) is not served by the API server: install Prometheus Operator",
            "Prometheus (monitoring.coreos.com/v1) is not served by the API server: install Prometheus Operator",
            "VerticalPodAutoscaler (autoscaling.k8s.io/v1) is not served by the API server: "
            "install the vertical pod autoscaler",
        ]
        await condition(rig, wanted, "Deployed", "True")  # all the rest
        await define(rig, SERVICE_MONITOR, PROMETHEUS, AUTOSCALER)
        await condition(rig, wanted, "DependenciesFulfilled", "True")
        await condition(rig, shard(), "DependenciesFulfilled", "True")
        assert await names(rig, SERVICE_MONITOR) == ALL_SERVICES
        assert await names(rig, AUTOSCALER) == ALL_SERVICES
        assert await names(rig, PROMETHEUS) == ["prometheus"]
        assert "usage-prometheus" in await names(rig, Service)
        monitor = await raw(rig, SERVICE_MONITOR, "binder")
        kept = await raw(rig, PROMETHEUS, "prometheus")
    assert monitor["metadata"]["labels"]["kai.scheduler/accounting"] == "true"
    assert monitor["spec"]["endpoints"] == [{"port": "metrics", "interval": "30s", "scrapeTimeout": "10s"}]
    assert kept["spec"]["serviceMonitorSelector"] == {"matchLabels": {"kai.scheduler/accounting": "true"}}
    assert kept["spec"]["retention"] == "2w"


@pytest.mark.looptime
async def test_service_monitors_can_be_switched_off() -> None:
    rig = await make_scene()
    await define(rig, SERVICE_MONITOR, PROMETHEUS)
    off = ServiceMonitorConfig(enabled=False)
    await rig.apply(config(prometheus=PrometheusConfig(enabled=True, serviceMonitor=off)))
    async with rig.running(service):
        await condition(rig, config(), "Deployed", "True")
        assert await names(rig, SERVICE_MONITOR) == []
        assert await names(rig, PROMETHEUS) == ["prometheus"]


async def test_a_prometheus_elsewhere_is_asked_whether_it_lives() -> None:
    rig = await make_scene()
    await define(rig, SERVICE_MONITOR, PROMETHEUS)
    nobody = PrometheusConfig(
        externalPrometheusUrl="http://user:secret@127.0.0.1:9",
        externalPrometheusHealthProbe=ExternalPrometheusHealthProbe(timeout=5),
    )
    await rig.apply(config(prometheus=nobody))
    async with rig.running(service):
        told = await condition(rig, config(), "DependenciesFulfilled", "False")
        assert await names(rig, PROMETHEUS) == []
        assert "binder" in await names(rig, SERVICE_MONITOR)
    assert told.reason == "prometheus_connection_failed"
    assert told.message.startswith("the Prometheus at http://127.0.0.1:9 can't be reached")
    assert "secret" not in told.message


@pytest.mark.looptime
async def test_a_prometheus_that_answered_is_called_unreachable_only_after_failures_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As often, and at the pace, that the Config says."""
    rig = await make_scene()
    await define(rig, SERVICE_MONITOR, PROMETHEUS)
    asked_at: list[float] = []
    down_from = 3

    async def probe(_address: str, timeout_seconds: float) -> str | None:
        assert timeout_seconds == 10
        asked_at.append(rig.clock.monotonic())
        return None if len(asked_at) < down_from else "nobody answers"

    monkeypatch.setattr("bosket.services.operator.prometheus_probe.probe", probe)
    rules = ExternalPrometheusHealthProbe(interval=7, maxRetries=3)
    await rig.apply(
        config(prometheus=PrometheusConfig(externalPrometheusUrl="http://x", externalPrometheusHealthProbe=rules))
    )
    async with rig.running(service):
        told = []
        while len(asked_at) < down_from + 2:
            await rig.clock.sleep(1)
            told.append((await conditions_of(rig, config()))["DependenciesFulfilled"].status)
        assert set(told[:-1]) == {"True"}
        await condition(rig, config(), "DependenciesFulfilled", "False")
    assert [round(later - earlier) for earlier, later in pairwise(asked_at[2 : down_from + 2])] == [7, 7]


@pytest.mark.looptime
async def test_a_burst_of_changes_does_not_use_up_the_failures_that_a_prometheus_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = await make_scene()
    await define(rig, SERVICE_MONITOR, PROMETHEUS)
    asked: list[str] = []
    is_down = False

    async def probe(address: str, timeout_seconds: float) -> str | None:
        del timeout_seconds
        asked.append(address)
        return "nobody answers" if is_down else None

    monkeypatch.setattr("bosket.services.operator.prometheus_probe.probe", probe)
    rules = ExternalPrometheusHealthProbe(interval=100, maxRetries=3)
    wanted = PrometheusConfig(externalPrometheusUrl="http://x", externalPrometheusHealthProbe=rules)
    await rig.apply(config(prometheus=wanted))
    async with rig.running(service):
        await condition(rig, config(), "DependenciesFulfilled", "True")
        is_down = True
        began = rig.clock.monotonic()
        for number in range(20):
            replicas = {"binder": {"replicas": number + 1}}
            await rig.client.patch(Config, "kai-config", {"spec": replicas})
            await condition(rig, config(), "DependenciesFulfilled", "True")
        await rig.clock.sleep(began + 150 - rig.clock.monotonic())
        assert asked == ["http://x"] * 2
        assert (await conditions_of(rig, config()))["DependenciesFulfilled"].status == "True"
        await rig.clock.sleep(100)
        assert (await conditions_of(rig, config()))["DependenciesFulfilled"].status == "True"
        await rig.clock.sleep(100)
        assert (await conditions_of(rig, config()))["DependenciesFulfilled"].status == "False"
        # Somebody names another one: that is asked at once.
        is_down = False
        other = {"prometheus": {"externalPrometheusUrl": "http://y"}}
        await rig.client.patch(Config, "kai-config", {"spec": other})
        await condition(rig, config(), "DependenciesFulfilled", "True")
        assert asked == [*["http://x"] * 4, "http://y"]
