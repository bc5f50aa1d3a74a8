"""What the chart's own Deployments have in common: image, security of containers, probes, where replicas run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bosket.api.keys import APP_LABEL
from bosket.install.account import Account
from bosket.install.expression import (
    AnyOf,
    AppVersion,
    Expression,
    FirstOf,
    IfElse,
    IsMoreThanOne,
    Literal,
    Not,
    ReleaseNamespace,
    Text,
    Value,
)
from bosket.install.template import Either, Tree, When, if_set

#: The securityContext of Bosket's own containers, in the chart and in what the operator deploys: no rights beyond those
#: of any process, nothing written, no root.
LOCKED_DOWN: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


#: Where a service tells of its health and of what it measures.
METRICS_PORT: Final = 8080
METRICS: Final = "metrics"
_SCRATCH: Final = "scratch"
_PRIORITY_CLASS: Final = if_set("global.priorityClassName")


@dataclass(frozen=True, slots=True)
class Workload:
    """One service as the chart deploys it."""

    #: Whose the pods are; the Deployment is called like it.
    account: Account
    #: Of the container.
    name: str
    #: Where in the values its number of replicas and its resources are.
    section: str
    #: Beside those that all have.
    arguments: Sequence[Tree]
    #: More labels of its pods.
    labels: dict[str, str] | None = None
    ports: Sequence[Tree] = ()
    volumes: Sequence[Tree] = ()
    mounts: Sequence[Tree] = ()
    priority_class: Tree = _PRIORITY_CLASS
    #: Of its pods.
    annotations: Tree = None


def image() -> Expression:
    """[registry/]name:tag, which every service runs."""
    registry = Value("global.registry")
    prefix = IfElse(registry, Text((registry, "/")), Literal(""))
    tag = FirstOf((Value("operator.image.tag"), Value("global.tag"), AppVersion()))
    return Text((prefix, Value("operator.image.name"), ":", tag))


def deployment(workload: Workload) -> dict[str, Tree]:
    """Replicas of which one works, unless all of them have to."""
    name = workload.account.name
    labels = {APP_LABEL: name}
    pod: dict[str, Any] = {
        "serviceAccountName": name,
        "containers": [_container(workload)],
        "volumes": [{"name": _SCRATCH, "emptyDir": {}}, *workload.volumes],
        "securityContext": if_set("global.podSecurityContext"),
        **{name: if_set(f"global.{name}") for name in ("imagePullSecrets", "tolerations", "nodeSelector")},
        "affinity": Either(Value("global.affinity"), Value("global.affinity"), _apart(labels)),
        "priorityClassName": workload.priority_class,
    }
    metadata: dict[str, Tree] = {"labels": {**labels, **(workload.labels or {})}}
    if workload.annotations:
        metadata["annotations"] = workload.annotations
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": ReleaseNamespace(), "labels": labels},
        "spec": {
            "replicas": Value(f"{workload.section}.replicaCount"),
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": pod},
        },
    }


def _container(workload: Workload) -> Tree:
    elects = AnyOf((Value("global.leaderElection"), IsMoreThanOne(Value(f"{workload.section}.replicaCount"))))
    return {
        "name": workload.name,
        "image": image(),
        "imagePullPolicy": FirstOf((Value("operator.image.pullPolicy"), Value("global.imagePullPolicy"))),
        "command": ["bosket", "run", workload.account.service],
        "args": [
            Text(("--namespace=", ReleaseNamespace())),
            f"--listen=0.0.0.0:{METRICS_PORT}",
            *workload.arguments,
            Text(("--log-level=", Value("operator.logLevel"))),
            When(Value("global.jsonLog"), "--log-format=json"),
            When(Not(elects), "--no-leader-elect"),
        ],
        "ports": [{"name": METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"}, *workload.ports],
        "readinessProbe": _probe("/readyz", period=5, failures=3),
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "resources": if_set(f"{workload.section}.resources"),
        "securityContext": When(
            Not(Value("openshift")),
            Either(Value("global.securityContext"), Value("global.securityContext"), LOCKED_DOWN),
        ),
        "volumeMounts": [{"name": _SCRATCH, "mountPath": "/tmp"}, *workload.mounts],  # noqa: S108 - the pod's own
    }


def _apart(labels: dict[str, str]) -> Tree:
    """Replicas on different nodes, if there are."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    preference = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}


def _probe(path: str, *, period: int, failures: int) -> Tree:
    return {
        "httpGet": {"path": path, "port": METRICS_PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
