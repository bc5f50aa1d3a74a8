"""autoscaling: HorizontalPodAutoscaler (v2), and Scale (v1), the form of every scale subresource."""

from __future__ import annotations

from bosket.api.object import KubeObject, LabelSelector, Wire
from bosket.api.quantity import Quantity


class ScaleSpec(Wire):
    """The size that is wanted."""

    replicas: int = 0


class ScaleStatus(Wire):
    """The size that there is, and which pods it counts."""

    replicas: int = 0
    selector: str = ""


class Scale(KubeObject):
    """The size of something that can be scaled."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CrossVersionObjectReference(Wire):
    """What is scaled."""

    kind: str
    name: str
    apiVersion: str = ""


class MetricIdentifier(Wire):
    """A metric."""

    name: str
    selector: LabelSelector | None = None


class MetricTarget(Wire):
    """The value that a metric should have."""

    type: str
    value: Quantity | None = None
    averageValue: Quantity | None = None
    averageUtilization: int | None = None


class ObjectMetricSource(Wire):
    """A metric of one object."""

    describedObject: CrossVersionObjectReference
    target: MetricTarget
    metric: MetricIdentifier


class PodsMetricSource(Wire):
    """A metric of the scaled pods, averaged."""

    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(Wire):
    """A resource of the scaled pods."""

    name: str
    target: MetricTarget


class ContainerResourceMetricSource(Wire):
    """A resource of one container of the scaled pods."""

    name: str
    target: MetricTarget
    container: str


class ExternalMetricSource(Wire):
    """A metric from outside the cluster."""

    metric: MetricIdentifier
    target: MetricTarget


class MetricSpec(Wire):
    """A metric to scale by."""

    type: str
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    containerResource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(Wire):
    """How far one step may go."""

    type: str
    value: int
    periodSeconds: int


class HPAScalingRules(Wire):
    """How fast to scale in one direction."""

    stabilizationWindowSeconds: int | None = None
    selectPolicy: str | None = None
    policies: tuple[HPAScalingPolicy, ...] = ()
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Wire):
    """How fast to scale up and down."""

    scaleUp: HPAScalingRules | None = None
    scaleDown: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(Wire):
    """What to scale by which metrics, between which bounds."""

    scaleTargetRef: CrossVersionObjectReference | None = None
    minReplicas: int | None = None
    maxReplicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


class MetricValueStatus(Wire):
    """The value that a metric has."""

    value: Quantity | None = None
    averageValue: Quantity | None = None
    averageUtilization: int | None = None


class ObjectMetricStatus(Wire):
    """The value of a metric of one object."""

    metric: MetricIdentifier
    describedObject: CrossVersionObjectReference
    current: MetricValueStatus = MetricValueStatus()


class PodsMetricStatus(Wire):
    """The value of a metric of the scaled pods."""

    metric: MetricIdentifier
    current: MetricValueStatus = MetricValueStatus()


class ResourceMetricStatus(Wire):
    """The value of a resource of the scaled pods."""

    name: str
    current: MetricValueStatus = MetricValueStatus()


class ContainerResourceMetricStatus(Wire):
    """The value of a resource of one container."""

    name: str
    container: str
    current: MetricValueStatus = MetricValueStatus()


class ExternalMetricStatus(Wire):
    """The value of a metric from outside the cluster."""

    metric: MetricIdentifier
    current: MetricValueStatus = MetricValueStatus()


class MetricStatus(Wire):
    """The value of a metric."""

    type: str
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    containerResource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerCondition(Wire):
    """One observed aspect of an autoscaler."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""
    observedGeneration: int | None = None


class HorizontalPodAutoscalerStatus(Wire):
    """What an autoscaler sees and wants."""

    observedGeneration: int | None = None
    lastScaleTime: str | None = None
    currentReplicas: int = 0
    desiredReplicas: int = 0
    currentMetrics: tuple[MetricStatus, ...] | None = ()
    conditions: tuple[HorizontalPodAutoscalerCondition, ...] | None = ()


class HorizontalPodAutoscaler(KubeObject):
    """Scales something by metrics."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
