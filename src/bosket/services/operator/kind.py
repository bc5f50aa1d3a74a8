"""The kinds that the operator creates. Kinds of other projects may be missing in the cluster, or be installed later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from bosket.api.resource import Resource
from bosket.api.table import resource_for
from bosket.kube.client import Client
from bosket.kube.codec import untyped
from bosket.runtime.clock import Clock
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


_WHOSE: Final = {
    SERVICE_MONITOR: "install Prometheus Operator",
    PROMETHEUS: "install Prometheus Operator",
    AUTOSCALER: "install the vertical pod autoscaler",
}


class Served:
    """Which of the optional kinds the API server has. Remembers what discovery said for a while."""

    def __init__(self, client: Client, clock: Clock, memory_seconds: float) -> None:
        self._client, self._clock, self._memory_seconds = client, clock, memory_seconds
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._looked_at: float | None = None

    async def divide(self, desired: Sequence[Manifest]) -> tuple[list[Manifest], list[str]]:
        """Those whose kind the server has, and a sentence for each kind that it lacks."""
        wanted = {kind_of(each) for each in desired} & set(OPTIONAL)
        lacking = await self._lacking(wanted) if wanted else set()
        sentences = [
            f"{each.kind} ({each.api_version}) is not served by the API server: {_WHOSE[each]}"
            for each in OPTIONAL
            if each in lacking
        ]
        return [each for each in desired if kind_of(each) not in lacking], sentences

    async def _lacking(self, wanted: Iterable[Dynamic]) -> set[Dynamic]:
        now = self._clock.monotonic()
        if self._looked_at is None or now >= self._looked_at + self._memory_seconds:
            self._known = frozenset((each.api_version, each.plural) for each in await self._client.discover())
            self._looked_at = now
        return {each for each in wanted if (each.api_version, each.plural) not in self._known}
