"""autoscaling/v2 metrics, as PodCliques and scaling groups hand them on to a HorizontalPodAutoscaler."""

from __future__ import annotations

from bosket.api.object import LabelSelector, Wire
from bosket.api.quantity import Quantity


class MetricTarget(Wire):
    """The value to hold a metric at."""

    type: str
    """Utilization, Value or AverageValue."""
    value: Quantity | None = None
    averageValue: Quantity | None = None
    averageUtilization: int | None = None


class MetricIdentifier(Wire):
    """Name of a metric, and which of its series are meant."""

    name: str
    selector: LabelSelector | None = None


class CrossVersionObjectReference(Wire):
    """An object that a metric speaks of."""

    kind: str
    name: str
    apiVersion: str = ""


class ObjectMetricSource(Wire):
    """A metric of one object."""

    describedObject: CrossVersionObjectReference
    target: MetricTarget
    metric: MetricIdentifier


class PodsMetricSource(Wire):
    """A metric of every pod, averaged."""

    metric: MetricIdentifier
    target: MetricTarget


class ResourceMetricSource(Wire):
    """Use of a resource by every pod, averaged."""

    name: str
    target: MetricTarget


class ContainerResourceMetricSource(Wire):
    """Use of a resource by one container of every pod, averaged."""

    name: str
    target: MetricTarget
    container: str


class ExternalMetricSource(Wire):
    """A metric from outside the cluster."""

    metric: MetricIdentifier
    target: MetricTarget


class MetricSpec(Wire):
    """What to scale by; the field that `type` names is set."""

    type: str
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    containerResource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None
