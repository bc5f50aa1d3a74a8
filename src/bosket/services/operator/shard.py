"""The objects that a SchedulingShard deploys: a scheduler for its nodes, its configuration, a Service to its leader."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from bosket.api.kai.config import SchedulerConfig, SchedulerService
from bosket.api.kai.operand import ServiceConfig
from bosket.api.kai.shard import SchedulingShard
from bosket.services.operator.common import Common
from bosket.services.operator.flag import flags
from bosket.services.operator.manifest import Manifest, manifest
from bosket.services.operator.monitoring import service_monitor
from bosket.services.operator.operand import METRICS_PORT, amounts
from bosket.services.operator.scheduler_file import render
from bosket.services.operator.workload import (
    METRICS,
    Workload,
    deployment,
    disruption_budget,
    port,
    service,
    vertical_autoscaler,
)

#: Of the ServiceAccount that all schedulers share.
SCHEDULER: Final = "scheduler"
_FILE: Final = "config.yaml"
_DIRECTORY: Final = "/etc/config"
_RECORDING: Final = "/recording"
#: What the argument `record` of a shard says: a volume that goes with the pod, or a claim that stays.
RECORDING_VALUE: Final = re.compile(r"emptyDir|claim/[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_RESOURCES: Final = amounts("250m", "512Mi", "4Gi")
#: Flags of KAI's scheduler that ours has, and that a shard may therefore give.
UNDERSTOOD_ARGUMENTS: Final = frozenset(
    {
        "allow-consolidating-reclaim",
        "burst",
        "cpu-worker-node-label-key",
        "default-staleness-grace-period",
        "detailed-fit-errors",
        "enable-profiler",
        "evict-by-deletion",
        "full-hierarchy-fairness",
        "gpu-worker-node-label-key",
        "log-level",
        "max-consolidation-preemptees",
        "plugin-server-port",
        "profiler-port",
        "pyroscope-address",
        "qps",
        "record",
        "record-keep",
        "record-most",
        "restrict-node-scheduling",
        "schedule-csi-storage",
        "schedule-period",
        "stuck-in-releasing-threshold",
        "use-scheduling-signatures",
    }
)


class Leader(NamedTuple):
    """The pod that decides."""

    name: str
    uid: str
    address: str


def name_of(shard: SchedulingShard, common: Common) -> str:
    """Of everything that the shard has."""
    return f"{common.scheduler_name}-{shard.metadata.name}"


def lease_name(shard: SchedulingShard, common: Common) -> str:
    """For which the shard's schedulers compete."""
    partition = shard.spec.partitionLabelValue
    return f"{common.scheduler_name}-{partition}" if partition else common.scheduler_name


def schedulers_are_on(common: Common) -> bool:
    """Whether shards have schedulers at all."""
    section = common.config.spec.scheduler or SchedulerConfig()
    return (section.service or ServiceConfig()).enabled is not False


def not_understood(shard: SchedulingShard) -> list[str]:
    """Arguments that our scheduler doesn't have, and isn't given."""
    return sorted(shard.spec.args.keys() - UNDERSTOOD_ARGUMENTS)


def objects(shard: SchedulingShard, common: Common, leader: Leader | None) -> list[Manifest]:
    """All that the shard deploys: nothing, where the Config switches schedulers off."""
    if not schedulers_are_on(common):
        return []
    name, section = name_of(shard, common), common.config.spec.scheduler or SchedulerConfig()
    settings, ports = section.service or ServiceConfig(), section.schedulerService or SchedulerService()
    number = ports.port or METRICS_PORT
    target = ports.targetPort or number
    text = render(shard.spec, common)
    given = {key: value for key, value in sorted(shard.spec.args.items()) if key in UNDERSTOOD_ARGUMENTS}
    recording = given.get("record", "")
    if recording:
        given["record"] = _RECORDING
    workload = Workload(
        name=name,
        service=SCHEDULER,
        arguments=[
            *(each for each in common.arguments(target, settings.k8sClientConfig) if _flag_name(each) not in given),
            f"--scheduler-config={_DIRECTORY}/{_FILE}",
            *flags(
                scheduler_name=common.scheduler_name,
                nodepool_label_key=common.node_pool_label_key,
                partition_label_value=shard.spec.partitionLabelValue,
                # Followed while the scheduler runs: other settings need no other pods. The file is for the start.
                scheduler_config_map=name,
                access_control=common.access_control or None,
            ),
            *(f"--{key}={value}" for key, value in given.items()),
        ],
        settings=settings,
        resources=_RESOURCES,
        health_port=target,
        replicas=common.replicas(section.replicas),
        account=SCHEDULER,
        volumes=[{"name": "config", "configMap": {"name": name}}, *_recording_volume(recording)],
        mounts=[
            {"name": "config", "mountPath": _DIRECTORY, "readOnly": True},
            *([{"name": "recording", "mountPath": _RECORDING}] if recording else []),
        ],
    )
    entry = port(METRICS, number, target)
    made = [
        manifest("v1", "ConfigMap", name, common.namespace, {"data": {_FILE: text}}),
        deployment(common, workload),
        *disruption_budget(common, workload),
        *vertical_autoscaler(common, workload, section.vpa),
        *service_monitor(common, name),
    ]
    kind = ports.type or "ClusterIP"
    headless = {"clusterIP": "None"} if kind == "ClusterIP" else {}
    if workload.replicas < 2:
        return [*made, service(common, name, [entry], type=kind, **headless)]
    # Only the leader's pages tell what is decided: the service has no selector, and the slice names one pod.
    reached = service(common, name, [entry], type=kind, **headless)
    del reached["spec"]["selector"]
    return [*made, reached, _slice(common, name, target, leader)]


def _recording_volume(value: str) -> list[Manifest]:
    """Where the shard's scheduler records its cycles, if it does."""
    if not value:
        return []
    kind, _, claim = value.partition("/")
    source: Manifest = {"persistentVolumeClaim": {"claimName": claim}} if kind == "claim" else {"emptyDir": {}}
    return [{"name": "recording", **source}]


def _flag_name(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]


def _slice(common: Common, name: str, number: int, leader: Leader | None) -> Manifest:
    reference = {"kind": "Pod", "namespace": common.namespace}
    endpoints = (
        [
            {
                "addresses": [leader.address],
                "conditions": {"ready": True},
                "targetRef": {**reference, "name": leader.name, "uid": leader.uid},
            }
        ]
        if leader is not None
        else []
    )
    content = {
        "addressType": "IPv6" if leader is not None and ":" in leader.address else "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": METRICS, "port": number, "protocol": "TCP"}],
    }
    labels = {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "kai-operator"}
    return manifest(
        "discovery.k8s.io/v1", "EndpointSlice", f"{name}-leader", common.namespace, content, app=name, labels=labels
    )
