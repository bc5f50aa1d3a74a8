"""The services that a Config deploys, in one table: name and arguments of each.

Arguments are those that `bosket run` takes. What the Config leaves out isn't passed on: the services have the same
defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bosket.api.kai.config import (
    AdmissionConfig,
    AdmissionWebhook,
    BinderConfig,
    ConfigSpec,
    NodeScaleAdjusterArgs,
    NodeScaleAdjusterConfig,
    PodGroupControllerConfig,
    PodGrouperArgs,
    PodGrouperConfig,
    QueueControllerConfig,
    QueueControllerService,
    ResourceReservationConfig,
)
from bosket.api.kai.operand import K8sClientConfig, PortMapping, ServiceConfig, VPASpec, WebhookSwitch
from bosket.api.kai.shard import PluginConfig
from bosket.api.keys import TRUSTED_SUBJECTS_ANNOTATION
from bosket.services.operator.common import Common
from bosket.services.operator.flag import as_json, flags
from bosket.services.operator.image import reference
from bosket.services.operator.manifest import Manifest
from bosket.services.operator.workload import METRICS, Workload, port

#: the port of health and metrics
METRICS_PORT: Final = 8080
WEBHOOK: Final = "webhook"


def amounts(cpu: str, memory: str, most_memory: str) -> Manifest:
    """Requests of a service. No CPU limit: with one, starting would take minutes and fail the liveness probe."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most_memory}}


_SMALL: Final = amounts("50m", "256Mi", "1Gi")


@dataclass(frozen=True, slots=True)
class Section:
    """The settings of a Config's section."""

    service: ServiceConfig
    replicas: int | None
    vpa: VPASpec | None
    arguments: list[str]
    ports: tuple[Manifest, ...]
    client: K8sClientConfig | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A service that a Config deploys."""

    name: str
    #: What `bosket run` calls it.
    service: str
    #: Of the Config.
    field: str
    read: Callable[[ConfigSpec, Common], Section]
    resources: Manifest

    def workload(self, section: Section, common: Common) -> Workload:
        targets = {each["name"]: each["targetPort"] for each in section.ports}
        health_port = targets.pop(METRICS)
        return Workload(
            name=self.name,
            service=self.service,
            arguments=[*common.arguments(health_port, section.client), *section.arguments],
            settings=section.service,
            resources=self.resources,
            health_port=health_port,
            replicas=common.replicas(section.replicas),
            ports=targets,
        )


def _pod_grouper(spec: ConfigSpec, common: Common) -> Section:
    section = spec.podGrouper or PodGrouperConfig()
    given = section.args or PodGrouperArgs()
    arguments = flags(
        scheduler_name=common.scheduler_name,
        queue_label_key=common.queue_label_key,
        nodepool_label_key=common.node_pool_label_key,
        pod_label_selector=common.settings.podLabelSelector or None,
        namespace_label_selector=common.settings.namespaceLabelSelector or None,
        knative_gang_schedule=given.gangScheduleKnative,
        generic_karta_fallback=given.genericKartaFallback,
        default_priorities_configmap_name=given.defaultPrioritiesConfigMapName or None,
        default_priorities_configmap_namespace=given.defaultPrioritiesConfigMapNamespace or None,
        grouper_concurrency=section.maxConcurrentReconciles,
    )
    read = _section(section, arguments)
    return replace(read, client=read.client or section.k8sClientConfig)


def _binder(spec: ConfigSpec, common: Common) -> Section:
    section = spec.binder or BinderConfig()
    reserved = section.resourceReservation or ResourceReservationConfig()
    plugins = dict(section.plugins)
    if section.cdiEnabled is not None:
        sharing = plugins.get("gpusharing", PluginConfig())
        known = {"cdiEnabled": str(section.cdiEnabled).lower(), **sharing.arguments}
        plugins["gpusharing"] = PluginConfig(enabled=sharing.enabled, priority=sharing.priority, arguments=known)
    arguments = flags(
        scheduler_name=common.scheduler_name,
        resource_reservation_namespace=reserved.namespace,
        resource_reservation_service_account=reserved.serviceAccountName,
        resource_reservation_app_label=reserved.appLabel,
        resource_reservation_pod_image=reference(reserved.image, common.options.image),
        resource_reservation_allocation_timeout=reserved.allocationTimeout,
        resource_reservation_pod_resources=as_json(reserved.podResources),
        resource_reservation_pod_security_context=as_json(reserved.reservationPodSecurityContext),
        resource_reservation_container_security_context=as_json(reserved.reservationContainerSecurityContext),
        runtime_class_name=reserved.runtimeClassName,
        scale_adjust_namespace=common.scale_adjust_namespace,
        max_concurrent_reconciles=section.maxConcurrentReconciles,
        volume_binding_timeout_seconds=section.volumeBindingTimeoutSeconds,
        plugins=as_json(plugins),
    )
    target = section.metricsPort or METRICS_PORT
    return _section(section, arguments, (port(METRICS, target, target),))


def _queue_controller(spec: ConfigSpec, _common: Common) -> Section:
    section = spec.queueController or QueueControllerConfig()
    arguments = flags(
        metrics_namespace=section.metricsNamespace,
        queue_label_to_metric_label=section.queueLabelToMetricLabel,
        queue_label_to_default_metric_value=section.queueLabelToDefaultMetricValue,
    )
    settings = (section.controllerService or QueueControllerService()).metrics or PortMapping()
    number = settings.port or METRICS_PORT
    return _section(section, arguments, (port(METRICS, number, settings.targetPort or number),))


def _pod_group_controller(spec: ConfigSpec, _common: Common) -> Section:
    section = spec.podGroupController or PodGroupControllerConfig()
    return _section(section, flags(podgroup_concurrency=section.maxConcurrentReconciles))


def _node_scale_adjuster(spec: ConfigSpec, common: Common) -> Section:
    section = spec.nodeScaleAdjuster or NodeScaleAdjusterConfig()
    given = section.args or NodeScaleAdjusterArgs()
    arguments = flags(
        scheduler_name=common.scheduler_name,
        scaling_pod_image=reference(given.scalingPodImage, common.options.image),
        scale_adjust_namespace=common.scale_adjust_namespace,
        scaling_pod_service_account=given.nodeScaleServiceAccount or "kai-scale-adjust",
        gpu_memory_to_fraction_ratio=given.gpuMemoryToFractionRatio,
    )
    settings = section.service or ServiceConfig()
    return Section(settings, None, section.vpa, arguments, _METRICS_ONLY, settings.k8sClientConfig)


def _admission(spec: ConfigSpec, common: Common) -> Section:
    section = spec.admission or AdmissionConfig()
    settings = section.webhook or AdmissionWebhook()
    names = webhook_configurations(spec)
    target = settings.targetPort or 9443
    runtime_class = section.gpuFractionRuntimeClassName
    if runtime_class is None:
        runtime_class = section.gpuPodRuntimeClassName
    arguments = flags(
        webhook_host="0.0.0.0",  # noqa: S104 - of a pod, whose API server is elsewhere
        webhook_addr=target,
        webhook_service_port=settings.port,
        scheduler_name=common.scheduler_name,
        queue_label_key=common.queue_label_key,
        pod_label_selector=common.settings.podLabelSelector or None,
        namespace_label_selector=common.settings.namespaceLabelSelector or None,
        gpu_sharing_enabled=section.gpuSharing,
        block_nvidia_visible_devices=section.blockNvidiaVisibleDevices,
        queue_label_selector=section.queueLabelSelector,
        access_control=common.access_control or None,
        trusted_subjects=common.config.metadata.annotations.get(TRUSTED_SUBJECTS_ANNOTATION),
        gpu_fraction_runtime_class_name=runtime_class,
        create_webhook_configurations=False,
        mutating_webhook_configuration_name=names.mutating,
        validating_webhook_configuration_name=names.validating,
        queue_webhook_configuration_name=names.queues,
        podgroup_webhook_configuration_name=names.pod_groups,
    )
    metrics = settings.metricsPort or METRICS_PORT
    return _section(section, arguments, (port(METRICS, metrics, metrics), port(WEBHOOK, settings.port or 443, target)))


@dataclass(frozen=True, slots=True)
class WebhookConfigurations:
    """What they are called."""

    mutating: str
    validating: str
    queues: str
    pod_groups: str
    #: Whether queues, and pod groups, are checked.
    checks_queues: bool
    checks_pod_groups: bool


def webhook_configurations(spec: ConfigSpec) -> WebhookConfigurations:
    """By KAI's names, unless the Config has others."""
    admission = spec.admission or AdmissionConfig()
    queues = (spec.queueController or QueueControllerConfig()).webhooks or WebhookSwitch()
    groups = (spec.podGroupController or PodGroupControllerConfig()).webhooks or WebhookSwitch()
    return WebhookConfigurations(
        mutating=admission.mutatingWebhookConfigurationName or "mutating-kai-admission",
        validating=admission.validatingWebhookConfigurationName or "validating-kai-admission",
        queues=f"{queues.webhookConfigurationNamePrefix or 'kai-queue-validation-'}v2",
        pod_groups=f"{groups.webhookConfigurationNamePrefix or 'kai-podgroup-validation-'}v2alpha2",
        checks_queues=queues.enableValidation is not False,
        checks_pod_groups=groups.enableValidation is not False,
    )


_METRICS_ONLY: Final = (port(METRICS, METRICS_PORT, METRICS_PORT),)

_Sections = PodGrouperConfig | BinderConfig | AdmissionConfig | QueueControllerConfig | PodGroupControllerConfig


def _section(section: _Sections, arguments: list[str], ports: tuple[Manifest, ...] = _METRICS_ONLY) -> Section:
    settings = section.service or ServiceConfig()
    return Section(settings, section.replicas, section.vpa, arguments, ports, settings.k8sClientConfig)


ADMISSION: Final = "admission"
OPERANDS: Final = (
    Operand("pod-grouper", "podgrouper", "podGrouper", _pod_grouper, _SMALL),
    Operand("binder", "binder", "binder", _binder, _SMALL),
    Operand("queue-controller", "queue-controller", "queueController", _queue_controller, _SMALL),
    Operand("podgroup-controller", "podgroup-controller", "podGroupController", _pod_group_controller, _SMALL),
    Operand("node-scale-adjuster", "node-scale-adjuster", "nodeScaleAdjuster", _node_scale_adjuster, _SMALL),
    Operand(ADMISSION, "admission", "admission", _admission, _SMALL),
)
