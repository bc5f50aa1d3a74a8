"""The objects that run a service: account, Deployment or DaemonSet, Service, disruption budget, vertical autoscaler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bosket.api.kai.operand import ServiceConfig, VPASpec
from bosket.api.keys import APP_LABEL
from bosket.services.operator.common import Common, plain
from bosket.services.operator.image import pull_policy, reference
from bosket.services.operator.manifest import Manifest, manifest

METRICS: Final = "metrics"
#: Where services can write: certificates on their way into a TLS library, and nothing else.
_SCRATCH: Final = "scratch"
#: For temporary files, in memory. A scheduler keeps snapshots there that it failed on.
SCRATCH_MIB: Final = 16


@dataclass(frozen=True, slots=True)
class Workload:
    """One service as it is deployed."""

    #: Of the Deployment and of all that belongs to it.
    name: str
    #: What `bosket run` calls it.
    service: str
    arguments: Sequence[str]
    settings: ServiceConfig
    #: Requests and limits where the settings have none.
    resources: Manifest
    #: Where it tells of its health, and of what it measures.
    health_port: int
    replicas: int = 1
    account: str = ""  #: of another name than the Deployment's
    environment: Sequence[Manifest] = ()
    volumes: Sequence[Manifest] = ()
    mounts: Sequence[Manifest] = ()
    #: Ports beside the one above, by name.
    ports: Mapping[str, int] = field(default_factory=dict)
    security_context: Manifest | None = None  #: instead of everybody's


def service_account(common: Common, name: str) -> Manifest:
    """Who the service is; what it may do comes with the installation."""
    return manifest("v1", "ServiceAccount", name, common.namespace)


def deployment(common: Common, workload: Workload) -> Manifest:
    """Replicas of which one works and the others stand by. None goes before another is ready to take its place."""
    spec: Manifest = {
        "replicas": workload.replicas,
        "selector": {"matchLabels": {APP_LABEL: workload.name}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": _template(common, workload, common.affinity(workload.settings.affinity, workload.name)),
    }
    settings = common.settings
    pod = spec["template"]["spec"]
    if settings.nodeSelector:
        pod["nodeSelector"] = dict(settings.nodeSelector)
    if settings.tolerations:
        pod["tolerations"] = [plain(each) for each in settings.tolerations]
    return manifest("apps/v1", "Deployment", workload.name, common.namespace, {"spec": spec})


def daemon_set(common: Common, workload: Workload, selector: Mapping[str, str], tolerations: Sequence[Any]) -> Manifest:
    """One on each node that the selector means: where services run is nothing to it."""
    template = _template(common, workload, plain(workload.settings.affinity))
    template["spec"]["nodeSelector"] = dict(selector)
    tolerated = [plain(each) for each in (*common.settings.daemonsetsTolerations, *tolerations)]
    if tolerated:
        template["spec"]["tolerations"] = tolerated
    spec = {"selector": {"matchLabels": {APP_LABEL: workload.name}}, "template": template}
    return manifest("apps/v1", "DaemonSet", workload.name, common.namespace, {"spec": spec})


def service(common: Common, name: str, ports: Sequence[Manifest], **spec: Any) -> Manifest:
    """How the service is reached."""
    content = {"type": "ClusterIP", "ports": list(ports), "selector": {APP_LABEL: name}, **spec}
    return manifest("v1", "Service", name, common.namespace, {"spec": content})


def port(name: str, number: int, target: int) -> Manifest:
    """A port of a service."""
    return {"name": name, "port": number, "targetPort": target, "protocol": "TCP"}


def disruption_budget(common: Common, workload: Workload) -> list[Manifest]:
    """Where it is asked for. One replica needs none: it would be in the way of everybody who drains a node."""
    wanted = workload.settings.podDisruptionBudget
    if wanted is None or not wanted.enabled or workload.replicas < 2:
        return []
    spec = {
        "maxUnavailable": 1 if wanted.maxUnavailable is None else wanted.maxUnavailable,
        "selector": {"matchLabels": {APP_LABEL: workload.name}},
    }
    return [manifest("policy/v1", "PodDisruptionBudget", workload.name, common.namespace, {"spec": spec})]


def vertical_autoscaler(
    common: Common, workload: Workload, own: VPASpec | None, target: str = "Deployment"
) -> list[Manifest]:
    """Where it is asked for, for the service or for all."""
    wanted = own if own is not None else common.settings.vpa
    if wanted is None or not wanted.enabled:
        return []
    policy = plain(wanted.updatePolicy)
    spec: Manifest = {
        "targetRef": {"apiVersion": "apps/v1", "kind": target, "name": workload.name},
        "updatePolicy": {**policy, "updateMode": policy.get("updateMode") or "InPlaceOrRecreate"},
    }
    if wanted.resourcePolicy is not None:
        spec["resourcePolicy"] = plain(wanted.resourcePolicy)
    return [manifest("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", workload.name, common.namespace, {"spec": spec})]


def _template(common: Common, workload: Workload, affinity: Manifest) -> Manifest:
    pod: Manifest = {
        "serviceAccountName": workload.account or workload.name,
        "containers": [_container(common, workload)],
        "volumes": [
            {"name": _SCRATCH, "emptyDir": {"medium": "Memory", "sizeLimit": f"{SCRATCH_MIB}Mi"}},
            *workload.volumes,
        ],
    }
    if affinity:
        pod["affinity"] = affinity
    if common.settings.priorityClassName:
        pod["priorityClassName"] = common.settings.priorityClassName
    if secrets := common.pull_secrets():
        pod["imagePullSecrets"] = secrets
    return {"metadata": {"labels": {APP_LABEL: workload.name}}, "spec": pod}


def _container(common: Common, workload: Workload) -> Manifest:
    settings = workload.settings
    container: Manifest = {
        "name": workload.name,
        "image": reference(settings.image, common.options.image),
        "imagePullPolicy": pull_policy(settings.image),
        "command": ["bosket", "run", workload.service],
        "args": list(workload.arguments),
        "resources": plain(settings.resources) if settings.resources is not None else workload.resources,
        "volumeMounts": [{"name": _SCRATCH, "mountPath": "/tmp"}, *workload.mounts],  # noqa: S108 - the pod's own
    }
    if workload.health_port:
        ports = {METRICS: workload.health_port, **workload.ports}
        container["ports"] = [
            {"name": name, "containerPort": number, "protocol": "TCP"} for name, number in ports.items()
        ]
        container["readinessProbe"] = _probe("/readyz", workload.health_port, period=5, failures=3)
        container["livenessProbe"] = _probe("/healthz", workload.health_port, period=10, failures=6)
    if workload.environment:
        container["env"] = list(workload.environment)
    security_context = workload.security_context or common.security_context()
    if security_context is not None:
        container["securityContext"] = security_context
    return container


def _probe(path: str, number: int, *, period: int, failures: int) -> Manifest:
    request = {"path": path, "port": number, "scheme": "HTTP"}
    return {"httpGet": request, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures}
