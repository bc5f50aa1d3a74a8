"""Objects for Prometheus Operator: a Prometheus of our own, and what it scrapes."""

from __future__ import annotations

from typing import Final, NamedTuple

from bosket.api.kai.config import ExternalPrometheusHealthProbe, PrometheusConfig, ServiceMonitorConfig
from bosket.api.keys import ACCOUNTING_LABEL, APP_LABEL
from bosket.services.operator.common import Common
from bosket.services.operator.manifest import Manifest, manifest
from bosket.services.operator.workload import METRICS, port, service, service_account

MONITORING: Final = "monitoring.coreos.com/v1"
#: Under which the usage database finds the Prometheus that is deployed.
USAGE_SERVICE: Final = "usage-prometheus"
_PORT: Final = 9090


class ProbeSettings(NamedTuple):
    """How a Prometheus that is elsewhere is asked whether it lives."""

    interval_seconds: float
    timeout_seconds: float
    #: In a row, after which one that answered before counts as unreachable.
    max_failures: int


def probe_settings(common: Common) -> ProbeSettings:
    """What the Config says of it, with KAI's defaults."""
    probe = settings(common).externalPrometheusHealthProbe or ExternalPrometheusHealthProbe()
    return ProbeSettings(probe.interval or 30, probe.timeout or 10, 5 if probe.maxRetries is None else probe.maxRetries)


def settings(common: Common) -> PrometheusConfig:
    """What the Config says of it."""
    return common.config.spec.prometheus or PrometheusConfig()


def wants_monitors(common: Common) -> bool:
    """Whether somebody reads what is measured."""
    wanted = settings(common)
    watched = bool(wanted.enabled or wanted.externalPrometheusUrl)
    return watched and (wanted.serviceMonitor or ServiceMonitorConfig()).enabled is not False


def wants_prometheus(common: Common) -> bool:
    """Whether one is to be deployed; one that is elsewhere is used instead."""
    return bool(settings(common).enabled) and not settings(common).externalPrometheusUrl


def service_monitor(common: Common, name: str) -> list[Manifest]:
    """That the service of this name is read."""
    if not wants_monitors(common):
        return []
    wanted = settings(common).serviceMonitor or ServiceMonitorConfig()
    endpoint = {
        "port": METRICS,
        "interval": wanted.interval or "30s",
        "scrapeTimeout": wanted.scrapeTimeout or "10s",
        **({"bearerTokenFile": wanted.bearerTokenFile} if wanted.bearerTokenFile else {}),
    }
    spec = {
        "jobLabel": APP_LABEL,
        "namespaceSelector": {"matchNames": [common.namespace]},
        "selector": {"matchLabels": {APP_LABEL: name}},
        "endpoints": [endpoint],
    }
    return [manifest(MONITORING, "ServiceMonitor", name, common.namespace, {"spec": spec}, labels=_accounting(common))]


def prometheus(common: Common) -> list[Manifest]:
    """The Prometheus that keeps the history of use, if one is to be deployed."""
    if not wants_prometheus(common):
        return []
    wanted = settings(common)
    name = wanted.instanceName or "prometheus"
    spec: Manifest = {
        "podMetadata": {"labels": {APP_LABEL: name}},
        "serviceAccountName": name,
        "retention": wanted.retentionPeriod or "2w",
        "scrapeInterval": wanted.sampleInterval or "1m",
        "serviceMonitorNamespaceSelector": {},
        "serviceMonitorSelector": {"matchLabels": _accounting(common)},
        "ruleNamespaceSelector": {},
        "ruleSelector": {"matchLabels": _accounting(common)},
    }
    if wanted.enablePersistentStorage is not False:
        claim = {
            "storageClassName": wanted.storageClassName or "standard",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": wanted.storageSize or "50Gi"}},
        }
        spec["storage"] = {"volumeClaimTemplate": {"spec": claim}}
    address = service(common, USAGE_SERVICE, [port("web", _PORT, _PORT)], selector={APP_LABEL: name})
    return [
        service_account(common, name),
        address,
        manifest(MONITORING, "Prometheus", name, common.namespace, {"spec": spec}),
    ]


def _accounting(common: Common) -> dict[str, str]:
    wanted = settings(common)
    return {wanted.accountingLabelKey or ACCOUNTING_LABEL: wanted.accountingLabelValue or "true"}
