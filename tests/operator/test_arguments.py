"""The arguments of operands are arguments of `bosket run`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import ResourceRequirements
from bosket.api.kai.config import (
    AdmissionConfig,
    AdmissionWebhook,
    BinderConfig,
    GlobalConfig,
    NodeScaleAdjusterArgs,
    NodeScaleAdjusterConfig,
    NumaPlacementExporterConfig,
    PodGroupControllerConfig,
    PodGrouperArgs,
    PodGrouperConfig,
    QueueControllerConfig,
    ResourceReservationConfig,
    SchedulerConfig,
)
from bosket.api.kai.operand import K8sClientConfig, ServiceConfig
from bosket.api.kai.shard import PluginConfig
from bosket.cli.main import app
from bosket.services.operator import shard as shard_part
from bosket.services.operator.common import Common
from bosket.services.operator.options import Options
from bosket.services.operator.plan import plan
from tests.operator.scene import config, shard

EVERYTHING = config(
    global_=GlobalConfig(
        jsonLog=True,
        schedulerName="mine",
        queueLabelKey="q",
        nodePoolLabelKey="pool",
        podLabelSelector={"a": "b"},
        namespaceLabelSelector={"c": "d", "e": "f"},
    ),
    podGrouper=PodGrouperConfig(
        maxConcurrentReconciles=3,
        args=PodGrouperArgs(
            gangScheduleKnative=False,
            genericKartaFallback=False,
            defaultPrioritiesConfigMapName="x",
            defaultPrioritiesConfigMapNamespace="y",
        ),
    ),
    podGroupController=PodGroupControllerConfig(
        maxConcurrentReconciles=3, service=ServiceConfig(k8sClientConfig=K8sClientConfig(qps=30))
    ),
    scheduler=SchedulerConfig(service=ServiceConfig(k8sClientConfig=K8sClientConfig(qps=30, burst=60))),
    binder=BinderConfig(
        maxConcurrentReconciles=3,
        volumeBindingTimeoutSeconds=7,
        cdiEnabled=True,
        plugins={"gpusharing": PluginConfig(enabled=True)},
        resourceReservation=ResourceReservationConfig(
            namespace="r",
            serviceAccountName="s",
            appLabel="t",
            allocationTimeout=9,
            runtimeClassName="nvidia",
            podResources=ResourceRequirements(requests={"cpu": "1m"}),
        ),
    ),
    admission=AdmissionConfig(
        gpuSharing=True,
        blockNvidiaVisibleDevices=True,
        queueLabelSelector=True,
        gpuFractionRuntimeClassName="",
        webhook=AdmissionWebhook(port=8443, targetPort=10443),
    ),
    queueController=QueueControllerConfig(
        metricsNamespace="m", queueLabelToMetricLabel="a=b", queueLabelToDefaultMetricValue="a=c"
    ),
    nodeScaleAdjuster=NodeScaleAdjusterConfig(args=NodeScaleAdjusterArgs(gpuMemoryToFractionRatio=0.5)),
    numaPlacementExporter=NumaPlacementExporterConfig(
        service=ServiceConfig(enabled=True), pollInterval="2s", driftResyncInterval="1m"
    ),
)
FLAGS = {
    "restrict-node-scheduling": "true",
    "max-consolidation-preemptees": "4",
    "full-hierarchy-fairness": "false",
    "default-staleness-grace-period": "90s",
    "schedule-csi-storage": "true",
    "plugin-server-port": "0",
    "log-level": "debug",
    "burst": "80",
}


def commands() -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for given in (EVERYTHING, config(numaPlacementExporter=EVERYTHING.spec.numaPlacementExporter)):
        common = Common(given, Options())
        own = shard("a", partitionLabelValue="p", args=FLAGS if given is EVERYTHING else {})
        for each in (*plan(common, []), *shard_part.objects(own, common, None)):
            if each["kind"] in ("Deployment", "DaemonSet"):
                (container,) = each["spec"]["template"]["spec"]["containers"]
                which = "all" if given is EVERYTHING else "defaults"
                made[f"{each['metadata']['name']}-{which}"] = [*container["command"], *container["args"]]
    return made


@pytest.mark.parametrize(("name", "command"), list(commands().items()))
def test_arguments_are_understood(name: str, command: list[str]) -> None:
    assert command[:2] == ["bosket", "run"]
    function, bound, ignored = app.parse_args(command[1:], print_error=False, exit_on_error=False)
    assert function.__name__ == "run"
    assert bound.args == (command[2],)
    assert not ignored


def test_webhooks_are_reached_at_the_ports_that_the_config_names() -> None:
    _, bound, _ = app.parse_args(commands()["admission-all"][1:], print_error=False, exit_on_error=False)
    told: Any = bound.arguments["admission"]
    assert (told.webhook_service_port, told.webhook_addr) == (8443, 10443)


def test_a_shards_flags_arrive() -> None:
    (command,) = [each for name, each in commands().items() if name == "mine-a-all"]
    _, bound, _ = app.parse_args(command[1:], print_error=False, exit_on_error=False)
    told: Any = bound.arguments
    assert told["scheduler"].partition_label_value == "p"
    assert told["scheduler"].restrict_node_scheduling
    assert not told["scheduler"].full_hierarchy_fairness
    assert told["workloads"].scheduler_name == "mine"
    assert told["workloads"].nodepool_label_key == "pool"
    assert told["log_level"] == "debug"


def test_how_fast_services_may_write_arrives_with_kais_defaults_for_what_is_left_out() -> None:
    for name, told in (("mine-a-all", (30, 80)), ("podgroup-controller-all", (30, 100)), ("binder-all", (None, 100))):
        command = commands()[name]
        _, bound, _ = app.parse_args(command[1:], print_error=False, exit_on_error=False)
        assert (bound.arguments.get("qps"), bound.arguments.get("burst", 100)) == told


def test_access_control_is_switched_on_by_an_annotation_of_the_config() -> None:
    """KAI's Config has no field for it."""
    said = {"bosket.dev/access-control": "true", "bosket.dev/trusted-subjects": "serviceaccount:kubeflow/trainer"}
    given = config()
    given = replace(given, metadata=replace(given.metadata, annotations=said))
    common = Common(given, Options())
    made = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in (*plan(common, []), *shard_part.objects(shard("a"), common, None))
        if each["kind"] == "Deployment"
    }
    told = {name for name, arguments in made.items() if "--access-control" in arguments}
    assert told == {"admission", *(name for name in made if name.startswith("kai-scheduler"))}
    assert "--trusted-subjects=serviceaccount:kubeflow/trainer" in made["admission"]
    assert not any("--access-control" in each for arguments in commands().values() for each in arguments)
