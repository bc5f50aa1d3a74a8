"""The Config `kai-config` and the default SchedulingShard, from values: what the operator deploys by."""

from __future__ import annotations

from typing import Any

from bosket.api.keys import (
    ACCESS_CONTROL_ANNOTATION,
    CONFIG_NAME,
    DEFAULT_NODE_POOL,
    TRUSTED_SUBJECTS_ANNOTATION,
)
from bosket.install.expression import AnyOf, FirstOf, ReleaseNamespace, Value
from bosket.install.template import EachName, Tree, When, if_set


def config() -> Tree:
    """`kai-config`. Sections are named by the values that they come from, and by their fields in a Config."""
    spec: dict[str, Any] = {
        "namespace": ReleaseNamespace(),
        "global": _global(),
        "podGrouper": {
            "service": _service("podgrouper", budget=True),
            "args": {"genericKartaFallback": Value("podgrouper.genericKartaFallback")},
        },
        "podGroupController": {"service": _service("podgroupcontroller")},
        "queueController": {"service": _service("queuecontroller")},
        "binder": _binder(),
        "scheduler": {
            "service": _service("scheduler", budget=True),
            "schedulerService": {"port": Value("scheduler.ports.metricsPort")},
        },
        "admission": _admission(),
        "nodeScaleAdjuster": _node_scale_adjuster(),
        "numaPlacementExporter": _numa_placement_exporter(),
        "prometheus": When(
            Value("prometheus.enabled"),
            {"enabled": True, "externalPrometheusUrl": if_set("prometheus.externalPrometheusUrl")},
        ),
    }
    manifest = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "metadata": {
            "name": CONFIG_NAME,
            "annotations": When(
                Value("accessControl.enabled"),
                {
                    ACCESS_CONTROL_ANNOTATION: "true",
                    TRUSTED_SUBJECTS_ANNOTATION: if_set("accessControl.trustedSubjects"),
                },
            ),
        },
        "spec": spec,
    }
    return When(Value("kaiConfig.render"), manifest)


def default_shard() -> Tree:
    """The shard of all nodes that are in no node pool. It goes with the chart: its scheduler would have no rights."""
    strategy = Value("scheduler.placementStrategy")
    gpu_strategy = FirstOf((Value("scheduler.gpuPlacementStrategy"), strategy))
    spec = {
        "partitionLabelValue": "",
        "placementStrategy": {"gpu": gpu_strategy, "cpu": strategy},
        "args": if_set("scheduler.args"),
        "plugins": if_set("scheduler.plugins"),
        "actions": if_set("scheduler.actions"),
        "scenarioSearchBudgets": if_set("scheduler.scenarioSearchBudgets"),
    }
    manifest = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": DEFAULT_NODE_POOL},
        "spec": spec,
    }
    return When(Value("defaultShard.enabled"), manifest)


def _global() -> Tree:
    passed_on = (
        *("namespaceLabelSelector", "podLabelSelector", "nodePoolLabelKey"),
        *("affinity", "nodeSelector", "tolerations", "priorityClassName", "securityContext"),
    )
    return {
        "openshift": Value("openshift"),
        "replicaCount": Value("operator.replicaCount"),
        "queueLabelKey": Value("podgrouper.queueLabelKey"),
        "jsonLog": Value("global.jsonLog"),
        "requireDefaultPodAntiAffinityTerm": Value("global.requireDefaultPodAntiAffinityTerm"),
        **{name: if_set(f"global.{name}") for name in passed_on},
        "additionalImagePullSecrets": When(
            Value("global.imagePullSecrets"), EachName(Value("global.imagePullSecrets"))
        ),
        "vpa": When(Value("global.vpa.enabled"), Value("global.vpa")),
    }


def _service(section: str, *, budget: bool = False, enabled: Value | None = None) -> dict[str, Tree]:
    """What every service of a Config has."""
    return {
        "enabled": enabled or Value(f"{section}.enabled"),
        "image": if_set(f"{section}.image"),
        "resources": if_set(f"{section}.resources"),
        "affinity": if_set(f"{section}.affinity"),
        **({"podDisruptionBudget": Value(f"{section}.podDisruptionBudget")} if budget else {}),
    }


def _binder() -> Tree:
    reserved = "global.resourceReservation"
    return {
        "service": _service("binder"),
        "metricsPort": Value("binder.ports.metricsPort"),
        "plugins": if_set("binder.plugins"),
        "resourceReservation": {
            "namespace": Value(f"{reserved}.namespace"),
            "serviceAccountName": Value(f"{reserved}.serviceAccount"),
            "appLabel": Value(f"{reserved}.appLabel"),
            "runtimeClassName": if_set("binder.runtimeClassName"),
            "image": if_set("binder.resourceReservationImage"),
            "podResources": if_set("binder.resourceReservationPodResources"),
        },
    }


def _admission() -> Tree:
    return {
        "service": _service("admission", budget=True),
        "gpuSharing": Value("global.gpuSharing"),
        "blockNvidiaVisibleDevices": Value("global.blockNvidiaVisibleDevices"),
        "gpuFractionRuntimeClassName": Value("admission.gpuFractionRuntimeClassName"),
        "webhook": {
            "targetPort": Value("admission.ports.webhookPort"),
            "metricsPort": Value("admission.ports.metricsPort"),
        },
    }


def _node_scale_adjuster() -> Tree:
    return {
        "service": _service("nodescaleadjuster", enabled=Value("global.clusterAutoscaling")),
        "args": {
            "nodeScaleNamespace": Value("nodescaleadjuster.scalingPodNamespace"),
            "scalingPodImage": if_set("nodescaleadjuster.scalingPodImage"),
        },
    }


def _numa_placement_exporter() -> Tree:
    """There, even if it says nothing, where something is said about it: whether it runs is the shards' to say."""
    section = "numaPlacementExporter"
    own = ("image", "resources", "affinity")
    fields = (
        *("nodeSelector", "tolerations", "pollInterval", "driftResyncInterval"),
        *("podResourcesHostPath", "podResourcesSocket", "sysfsHostPath"),
    )
    said = AnyOf(tuple(Value(f"{section}.{name}") for name in own))
    return When(
        AnyOf(tuple(Value(f"{section}.{name}") for name in (*own, *fields))),
        {
            "nodeSelector": Value(f"{section}.nodeSelector"),
            **{name: if_set(f"{section}.{name}") for name in fields if name != "nodeSelector"},
            "service": When(said, {"image": Value(f"{section}.image"), **_optional(section, own[1:])}),
        },
    )


def _optional(section: str, names: tuple[str, ...]) -> dict[str, Tree]:
    return {name: if_set(f"{section}.{name}") for name in names}
