"""The kinds of objects that the operator makes. Those of other projects may not be there, and may come any time."""

from __future__ import annotations

from typing import Any, Final

from bosket.api.resource import Resource
from bosket.api.table import resource_for
from bosket.kube.codec import untyped
from bosket.services.operator.manifest import Manifest

Dynamic = Resource[dict[str, Any]]


def _own(api_version: str, kind: str) -> Dynamic:
    resource = resource_for(api_version, kind)
    assert resource is not None, f"{api_version} {kind} is not in the table"
    return untyped(resource)


def _foreign(group: str, version: str, kind: str, plural: str) -> Dynamic:
    return untyped(Resource(group, version, kind, plural, dict))


SERVICE_MONITOR: Final = _foreign("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors")
PROMETHEUS: Final = _foreign("monitoring.coreos.com", "v1", "Prometheus", "prometheuses")
AUTOSCALER: Final = _foreign("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
OPTIONAL: Final = (SERVICE_MONITOR, PROMETHEUS, AUTOSCALER)
#: In the order in which they are deleted: webhooks that nobody serves any more would be in everybody's way.
KINDS: Final[tuple[Dynamic, ...]] = (
    _own("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    _own("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    *OPTIONAL,
    _own("discovery.k8s.io/v1", "EndpointSlice"),
    _own("v1", "Service"),
    _own("policy/v1", "PodDisruptionBudget"),
    _own("apps/v1", "Deployment"),
    _own("apps/v1", "DaemonSet"),
    _own("v1", "ConfigMap"),
    _own("v1", "ServiceAccount"),
)
_BY_NAME: Final = {(each.api_version, each.kind): each for each in KINDS}


def kind_of(manifest: Manifest) -> Dynamic:
    """Of an object that the operator makes."""
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
