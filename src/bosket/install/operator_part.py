"""The operator's Deployment: the one workload of the chart. Everything else that runs, the operator deploys."""

from __future__ import annotations

from typing import Any, Final

from bosket.api.keys import APP_LABEL
from bosket.install.account import OPERATOR
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

#: Where it tells of its health and of what it measures.
_PORT: Final = 8080
_SCRATCH: Final = "scratch"
_LOCKED_DOWN: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 10000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def image() -> Expression:
    """[registry/]name:tag, which the operator also runs the services from."""
    registry = Value("global.registry")
    prefix = IfElse(registry, Text((registry, "/")), Literal(""))
    tag = FirstOf((Value("operator.image.tag"), Value("global.tag"), AppVersion()))
    return Text((prefix, Value("operator.image.name"), ":", tag))


def deployment() -> Tree:
    """Two replicas by default, of which one works."""
    labels = {APP_LABEL: OPERATOR.name}
    replicas = Value("operator.replicaCount")
    pod: dict[str, Any] = {
        "serviceAccountName": OPERATOR.name,
        "containers": [_container()],
        "volumes": [{"name": _SCRATCH, "emptyDir": {}}],
        "securityContext": if_set("global.podSecurityContext"),
        **{name: if_set(f"global.{name}") for name in ("imagePullSecrets", "tolerations", "nodeSelector")},
        "affinity": Either(Value("global.affinity"), Value("global.affinity"), _apart(labels)),
        "priorityClassName": if_set("global.priorityClassName"),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": OPERATOR.name, "namespace": ReleaseNamespace(), "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container() -> Tree:
    elects = AnyOf((Value("global.leaderElection"), IsMoreThanOne(Value("operator.replicaCount"))))
    return {
        "name": "operator",
        "image": image(),
        "imagePullPolicy": FirstOf((Value("operator.image.pullPolicy"), Value("global.imagePullPolicy"))),
        "command": ["bosket", "run", OPERATOR.service],
        "args": [
            Text(("--namespace=", ReleaseNamespace())),
            f"--listen=0.0.0.0:{_PORT}",
            Text(("--image=", image())),
            Text(("--log-level=", Value("operator.logLevel"))),
            When(Value("global.jsonLog"), "--log-format=json"),
            When(Not(elects), "--no-leader-elect"),
        ],
        "ports": [{"name": "metrics", "containerPort": _PORT, "protocol": "TCP"}],
        "readinessProbe": _probe("/readyz", period=5, failures=3),
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "resources": if_set("operator.resources"),
        "securityContext": When(
            Not(Value("openshift")),
            Either(Value("global.securityContext"), Value("global.securityContext"), _LOCKED_DOWN),
        ),
        "volumeMounts": [{"name": _SCRATCH, "mountPath": "/tmp"}],  # noqa: S108 - the pod's own
    }


def _apart(labels: dict[str, str]) -> Tree:
    """Replicas on different nodes, if there are."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _probe(path: str, *, period: int, failures: int) -> Tree:
    return {
        "httpGet": {"path": path, "port": _PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
