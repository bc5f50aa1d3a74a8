"""kai.scheduler/v1 Config: how the system as a whole is deployed. The operator reads the one named `kai-config`.

Everything may be left out; the operator then takes the values that the descriptions name.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from bosket.api.core import Affinity, PodSecurityContext, ResourceRequirements, SecurityContext, Toleration
from bosket.api.crd_marks import AGE, Column, Duration, Int32
from bosket.api.kai.operand import Image, K8sClientConfig, PortMapping, ServiceConfig, VPASpec, WebhookSwitch
from bosket.api.kai.shard import PluginConfig
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource

#: the operator ignores Configs of other names
CONFIG_NAME = "kai-config"


class GlobalConfig(Wire):
    """What holds for all services, where a service's own section doesn't say otherwise."""

    vpa: VPASpec | None = None
    openshift: bool | None = None
    """Whether this is OpenShift, which sets security contexts itself; false if left out."""
    affinity: Affinity | None = None
    requireDefaultPodAntiAffinityTerm: bool | None = None
    """Whether replicas of a service must, rather than should, run on different nodes; false if left out."""
    securityContext: SecurityContext | None = None
    """Of every container; if left out: user 10000, not root, no privileges."""
    imagesPullSecret: str | None = None
    """Superseded by additionalImagePullSecrets."""
    additionalImagePullSecrets: tuple[str, ...] = ()
    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    daemonsetsTolerations: tuple[Toleration, ...] = ()
    priorityClassName: str | None = None
    replicaCount: Int32 | None = None
    queueLabelKey: str | None = None
    """Label that names a workload's queue: kai.scheduler/queue if left out."""
    schedulerName: str | None = None
    """Pods with this schedulerName are ours: kai-scheduler if left out."""
    nodePoolLabelKey: str | None = None
    """Label that names an object's node pool: kai.scheduler/node-pool if left out."""
    namespaceLabelSelector: dict[str, str] = {}
    """Webhooks look only at namespaces with these labels."""
    podLabelSelector: dict[str, str] = {}
    """Webhooks and the pod grouper look only at pods with these labels."""
    jsonLog: bool | None = None
    """Whether services log in JSON; false if left out."""


class PodGrouperArgs(Wire):
    """Options of the pod grouper."""

    gangScheduleKnative: bool | None = None
    genericKartaFallback: bool | None = None
    """true if left out."""
    defaultPrioritiesConfigMapName: str | None = None
    """ConfigMap with the default priority class of each kind of workload."""
    defaultPrioritiesConfigMapNamespace: str | None = None


class PodGrouperConfig(Wire):
    """The service that makes pod groups for workloads."""

    service: ServiceConfig | None = None
    args: PodGrouperArgs | None = None
    k8sClientConfig: K8sClientConfig | None = None
    maxConcurrentReconciles: int | None = None
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class ResourceReservationConfig(Wire):
    """The pods that hold shared GPUs."""

    image: Image | None = None
    allocationTimeout: int | None = None
    """Seconds that a reservation pod may take to report its device."""
    namespace: str | None = None
    """kai-resource-reservation if left out."""
    serviceAccountName: str | None = None
    """kai-resource-reservation if left out."""
    appLabel: str | None = None
    """kai-resource-reservation if left out."""
    runtimeClassName: str | None = None
    podResources: ResourceRequirements | None = None
    reservationPodSecurityContext: PodSecurityContext | None = None
    reservationContainerSecurityContext: SecurityContext | None = None


class BinderConfig(Wire):
    """The service that carries out bind requests."""

    service: ServiceConfig | None = None
    resourceReservation: ResourceReservationConfig | None = None
    maxConcurrentReconciles: int | None = None
    volumeBindingTimeoutSeconds: int | None = None
    """120 if left out."""
    probePort: int | None = None
    """8081 if left out."""
    metricsPort: int | None = None
    """8080 if left out."""
    cdiEnabled: bool | None = None
    """Whether devices are passed by the Container Device Interface; found out if left out."""
    plugins: dict[str, PluginConfig] = {}
    """Settings of the binder's plugins, by name."""
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class AdmissionWebhook(Wire):
    """Ports of the admission service."""

    port: int | None = None
    """443 if left out."""
    targetPort: int | None = None
    """9443 if left out."""
    probePort: int | None = None
    """8081 if left out."""
    metricsPort: int | None = None
    """8080 if left out."""


class AdmissionConfig(Wire):
    """The service that checks and completes pods on their way in."""

    service: ServiceConfig | None = None
    webhook: AdmissionWebhook | None = None
    gpuSharing: bool | None = None
    """Whether pods may ask for parts of a GPU; false if left out."""
    blockNvidiaVisibleDevices: bool | None = None
    """Whether pods that set NVIDIA_VISIBLE_DEVICES themselves are refused; false if left out."""
    queueLabelSelector: bool | None = None
    """Whether only pods with a queue label are looked at; false if left out."""
    validatingWebhookConfigurationName: str | None = None
    """validating-kai-admission if left out."""
    mutatingWebhookConfigurationName: str | None = None
    """mutating-kai-admission if left out."""
    gpuPodRuntimeClassName: str | None = None
    """Superseded by gpuFractionRuntimeClassName."""
    gpuFractionRuntimeClassName: str | None = None
    """Runtime class of pods that share GPUs: nvidia if left out; empty sets none."""
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class SchedulerService(Wire):
    """The Service in front of the schedulers."""

    type: str | None = None
    """ClusterIP if left out."""
    port: int | None = None
    """8080 if left out."""
    targetPort: int | None = None
    """8080 if left out."""


class SchedulerConfig(Wire):
    """What all schedulers have in common; a SchedulingShard says what is particular to one."""

    service: ServiceConfig | None = None
    GOGC: int | None = None
    """How lazily the garbage collector works: 400 if left out; for KAI's own scheduler."""
    schedulerService: SchedulerService | None = None
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class QueueControllerService(Wire):
    """Ports of the queue controller."""

    metrics: PortMapping | None = None
    webhook: PortMapping | None = None


class QueueControllerConfig(Wire):
    """The service that keeps the status of queues."""

    service: ServiceConfig | None = None
    controllerService: QueueControllerService | None = None
    webhooks: WebhookSwitch | None = None
    metricsNamespace: str | None = None
    """What names of metrics begin with: kai if left out."""
    queueLabelToMetricLabel: str | None = None
    """Labels of queues that become labels of metrics, as label=metric_label pairs separated by commas."""
    queueLabelToDefaultMetricValue: str | None = None
    """Values for queues without such a label, as label=value pairs separated by commas."""
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class PodGroupControllerService(Wire):
    """Ports of the pod group controller."""

    webhook: PortMapping | None = None


class PodGroupControllerConfig(Wire):
    """The service that keeps the status of pod groups."""

    service: ServiceConfig | None = None
    controllerService: PodGroupControllerService | None = None
    webhooks: WebhookSwitch | None = None
    maxConcurrentReconciles: int | None = None
    replicas: Int32 | None = None
    vpa: VPASpec | None = None


class NodeScaleAdjusterArgs(Wire):
    """Options of the node scale adjuster."""

    scalingPodImage: Image | None = None
    nodeScaleNamespace: str | None = None
    """kai-scale-adjust if left out."""
    nodeScaleServiceAccount: str | None = None
    """kai-scale-adjust if left out."""
    gpuMemoryToFractionRatio: float | None = None
    """Part of a GPU that a pod which asks for GPU memory is taken to need."""


class NodeScaleAdjusterConfig(Wire):
    """The service that makes autoscalers see what pods with parts of GPUs need."""

    service: ServiceConfig | None = None
    args: NodeScaleAdjusterArgs | None = None
    vpa: VPASpec | None = None


class ServiceMonitorConfig(Wire):
    """How Prometheus reads the metrics of the services."""

    enabled: bool | None = None
    """true if left out."""
    interval: str | None = None
    """30s if left out."""
    scrapeTimeout: str | None = None
    """10s if left out."""
    bearerTokenFile: str | None = None


class ExternalPrometheusHealthProbe(Wire):
    """How often a Prometheus that isn't ours is asked whether it lives."""

    interval: int | None = None
    """Seconds between two probes: 30 if left out."""
    timeout: int | None = None
    """Seconds that a probe may take: 10 if left out."""
    maxRetries: int | None = None
    """5 if left out."""


class PrometheusConfig(Wire):
    """The Prometheus that keeps the history of use."""

    enabled: bool | None = None
    """Whether one is deployed; false if left out."""
    instanceName: str | None = None
    """prometheus if left out."""
    retentionPeriod: str | None = None
    """2w if left out."""
    sampleInterval: str | None = None
    """1m if left out."""
    enablePersistentStorage: bool | None = None
    storageSize: str | None = None
    """50Gi if left out."""
    storageClassName: str | None = None
    """standard if left out."""
    serviceMonitor: ServiceMonitorConfig | None = None
    externalPrometheusUrl: str | None = None
    """Address of a Prometheus to use instead of deploying one."""
    externalPrometheusHealthProbe: ExternalPrometheusHealthProbe | None = None
    accountingLabelKey: str | None = None
    """Label of the ServiceMonitors that are read: kai.scheduler/accounting if left out."""
    accountingLabelValue: str | None = None
    """true if left out."""


class NumaPlacementExporterConfig(Wire):
    """The DaemonSet that reports where on a node pods have got their resources."""

    service: ServiceConfig | None = None
    """If `enabled` is left out: deployed if some shard has the plugin `numa` on."""
    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    pollInterval: Duration | None = None
    """1s if left out."""
    driftResyncInterval: Duration | None = None
    """60s if left out."""
    podResourcesHostPath: str | None = None
    podResourcesSocket: str | None = None
    sysfsHostPath: str | None = None


class ConfigSpec(Wire):
    """How the system is deployed, service by service."""

    namespace: str = ""
    """Where services are deployed: kai-scheduler if left out."""
    global_: GlobalConfig | None = msgspec.field(default=None, name="global")
    podGrouper: PodGrouperConfig | None = None
    binder: BinderConfig | None = None
    admission: AdmissionConfig | None = None
    scheduler: SchedulerConfig | None = None
    queueController: QueueControllerConfig | None = None
    podGroupController: PodGroupControllerConfig | None = None
    nodeScaleAdjuster: NodeScaleAdjusterConfig | None = None
    prometheus: PrometheusConfig | None = None
    numaPlacementExporter: NumaPlacementExporterConfig | None = None


class ConfigStatus(Wire):
    """Whether the system is deployed and available."""

    conditions: tuple[Condition, ...] = ()


class Config(KubeObject):
    """How the system as a whole is deployed."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        Column("Available", '.status.conditions[?(@.type=="Available")].status'),
        AGE,
    )

    spec: ConfigSpec = ConfigSpec()
    status: ConfigStatus = ConfigStatus()


CONFIG = Resource("kai.scheduler", "v1", "Config", "configs", Config, namespaced=False, subresources=("status",))
