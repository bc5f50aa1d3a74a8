"""Invalid settings are reported by field."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.api.kai.config import (
    AdmissionConfig,
    AdmissionWebhook,
    GlobalConfig,
    NodeScaleAdjusterArgs,
    NodeScaleAdjusterConfig,
    PodGrouperConfig,
    PrometheusConfig,
    SchedulerConfig,
    SchedulerService,
)
from bosket.api.kai.operand import Image, ServiceConfig
from bosket.api.kai.shard import ActionConfig, MinRuntime, PlacementStrategy, UsageDBConfig
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.services.operator.check import config_problems, shard_problems
from bosket.services.operator.common import Common
from bosket.services.operator.options import Options
from tests.operator.scene import config, shard

PROMETHEUS = UsageDBConfig(clientType="prometheus")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"namespace": "elsewhere"},
            'spec.namespace: is "elsewhere": this operator deploys in kai-scheduler, and has no rights elsewhere',
        ),
        ({"global_": GlobalConfig(replicaCount=-2)}, "spec.global.replicaCount: is -2: it must be 0 or more"),
        (
            {"admission": AdmissionConfig(webhook=AdmissionWebhook(targetPort=70000))},
            "spec.admission.webhook.targetPort: is 70000: a port is between 1 and 65535",
        ),
        (
            {"podGrouper": PodGrouperConfig(service=ServiceConfig(image=Image(pullPolicy="Sometimes")))},
            'spec.podGrouper.service.image.pullPolicy: is "Sometimes": it must be one of Always, IfNotPresent, Never',
        ),
        (
            {"podGrouper": PodGrouperConfig(maxConcurrentReconciles=0)},
            "spec.podGrouper.maxConcurrentReconciles: is 0: it must be 1 or more",
        ),
        (
            {"scheduler": SchedulerConfig(schedulerService=SchedulerService(type="Magic"))},
            'spec.scheduler.schedulerService.type: is "Magic": it must be one of ClusterIP, NodePort, LoadBalancer',
        ),
        (
            {"nodeScaleAdjuster": NodeScaleAdjusterConfig(args=NodeScaleAdjusterArgs(gpuMemoryToFractionRatio=0.0))},
            "spec.nodeScaleAdjuster.args.gpuMemoryToFractionRatio: is 0: it must be above 0 and at most 1",
        ),
    ],
)
def test_a_config_that_cannot_be_followed(spec: dict[str, Any], sentence: str) -> None:
    assert [str(each) for each in config_problems(config(**spec).spec, SYSTEM_NAMESPACE)] == [sentence]


def test_an_empty_config_is_fine() -> None:
    assert config_problems(config(namespace=SYSTEM_NAMESPACE).spec, SYSTEM_NAMESPACE) == []
    assert config_problems(config().spec, "elsewhere") == []


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"placementStrategy": PlacementStrategy(gpu="pile")}, 'spec.placementStrategy.gpu: is "pile": it must be'),
        (
            {"placementStrategy": PlacementStrategy(cpu="fragmentation")},
            'spec.placementStrategy.cpu: is "fragmentation": it must be binpack or spread',
        ),
        ({"kValue": -1.0}, "spec.kValue: is -1: it must be 0 or more"),
        (
            {"args": {"record": "/tmp"}},
            'spec.args.record: is "/tmp": it must be emptyDir, or claim/ with the name of a claim',
        ),
        ({"minRuntime": MinRuntime(preemptMinRuntime="soon")}, 'spec.minRuntime.preemptMinRuntime: is "soon": it must'),
        ({"partitionLabelValue": "a b"}, 'spec.partitionLabelValue: is "a b": it must be'),
        ({"actions": {"dance": ActionConfig()}}, "spec.actions.dance: there is no such action; there are allocate"),
        ({"queueDepthPerAction": {"dance": 1}}, "spec.queueDepthPerAction.dance: the scheduler's actions are allocate"),
        ({"usageDBConfig": PROMETHEUS}, "spec.usageDBConfig.connectionString: no connection string"),
    ],
)
def test_a_shard_that_cannot_be_followed(spec: dict[str, Any], sentence: str) -> None:
    (problem,) = shard_problems(shard(**spec), Common(config(), Options()), [])
    assert str(problem).startswith(sentence)


def test_a_history_is_found_where_the_config_has_a_prometheus() -> None:
    for prometheus in (PrometheusConfig(enabled=True), PrometheusConfig(externalPrometheusUrl="http://p:9090")):
        common = Common(config(prometheus=prometheus), Options())
        assert shard_problems(shard(usageDBConfig=PROMETHEUS), common, []) == []
