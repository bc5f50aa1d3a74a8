"""Grove's services: the operator of PodCliqueSets, its webhooks, and what tells schedulers about gangs.

Only where the values say so. Nobody deploys them for the chart: the Config of KAI's operator has no place for them.
"""

from __future__ import annotations

from typing import Final

from bosket.api.grove.naming import (
    BINDINGS_VALIDATED,
    CHILDREN_PROTECTED,
    SETS_DEFAULTED,
    SETS_VALIDATED,
    WEBHOOK_SERVICE,
)
from bosket.api.keys import APP_LABEL
from bosket.install.account import (
    ACCOUNTS,
    GROVE_ADMISSION,
    GROVE_BACKENDS,
    GROVE_BACKENDS_APART,
    GROVE_OPERATOR,
    Account,
)
from bosket.install.expression import (
    AllOf,
    AnyOf,
    Concat,
    Expression,
    FirstOf,
    IfElse,
    Json,
    Not,
    ReleaseNamespace,
    Sha256,
    Text,
    Value,
)
from bosket.install.right import read_rights
from bosket.install.template import Tree, When, if_set
from bosket.install.workload_part import METRICS, METRICS_PORT, Workload, deployment, image

ENABLED: Final = Value("grove.enabled")
#: What all of its pods have, so that one Service is theirs.
_LABELS: Final = {"app.kubernetes.io/part-of": "grove"}
_CONFIG: Final = "grove-operator-config"
_CONFIG_FOLDER: Final = "/etc/grove-operator/config"
_CONFIG_FILE: Final = "config.yaml"
_WEBHOOKS: Final = "webhooks"
_SERVER: Final = "grove.config.server.webhooks"
_AUTHORIZER: Final = "grove.config.authorizer"
_PRIORITY: Final = "grove.priorityClass"
#: What init containers run, in the image of all services.
_INIT_COMMAND: Final = "bosket run grove-initc"


def is_deployed(account: Account) -> Expression:
    """Whether the values ask for a service of Grove's: backends run together, or each apart."""
    together = Value("grove.backends.together")
    if account == GROVE_BACKENDS:
        return AllOf((ENABLED, together))
    if account.backend:
        return AllOf((ENABLED, Not(together), Value(f"grove.backends.apart.{account.backend}")))
    return ENABLED


def objects() -> list[Tree]:
    """In an order in which they can be applied."""
    accounts = (GROVE_OPERATOR, GROVE_ADMISSION, GROVE_BACKENDS, *GROVE_BACKENDS_APART)
    return [
        *(When(is_deployed(each), _service_account(each)) for each in accounts),
        When(AllOf((ENABLED, Value(f"{_PRIORITY}.enabled"))), _priority_class()),
        When(ENABLED, _configuration()),
        *_webhook_configurations(),
        When(ENABLED, _service()),
        When(AllOf((ENABLED, Value("grove.serviceMonitor.enabled"))), _service_monitor()),
        When(ENABLED, _disruption_budget()),
        *(When(is_deployed(each), deployment(_workload(each))) for each in accounts),
    ]


def _service_account(account: Account) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": account.name, "namespace": ReleaseNamespace()},
        "imagePullSecrets": if_set("global.imagePullSecrets"),
    }


def _priority_class() -> Tree:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": Value(f"{_PRIORITY}.name")},
        "value": Value(f"{_PRIORITY}.value"),
        "description": "Bosket: Grove's services, which aren't preempted for others' pods",
    }


def _document() -> Json:
    """The OperatorConfiguration that all of them read; JSON is YAML, too."""
    passed_on = ("controllers", "scheduler", "topologyAwareScheduling", "network")
    exempt = Concat(
        tuple(_user(each) for each in ACCOUNTS if _changes_children(each)),
        Value(f"{_AUTHORIZER}.exemptServiceAccountUserNames"),
    )
    server = {name: Value(f"{_SERVER}.{name}") for name in ("port", "secretName", "certProvisionMode")}
    return Json(
        {
            "apiVersion": "operator.config.grove.io/v1alpha1",
            "kind": "OperatorConfiguration",
            **{name: Value(f"grove.config.{name}") for name in passed_on},
            "authorizer": {"enabled": Value(f"{_AUTHORIZER}.enabled"), "exemptServiceAccountUserNames": exempt},
            # Of a pod, whose API server is elsewhere.
            "server": {"webhooks": {"bindAddress": "0.0.0.0", **server}},  # noqa: S104
        }
    )


def _configuration() -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _CONFIG, "namespace": ReleaseNamespace(), "labels": {APP_LABEL: GROVE_OPERATOR.name}},
        "data": {_CONFIG_FILE: _document()},
    }


def _changes_children(account: Account) -> bool:
    """Whether it has to change what the operator made: pods that it places, gangs that it labels."""
    if account == GROVE_OPERATOR:
        return False  # the authorizer knows it anyway
    patched = {(each.group, each.resource) for each in read_rights()[account.name] if each.verb == "patch"}
    return bool(patched & {("", "pods"), ("scheduler.grove.io", "podgangs")}) and not account.in_reservation_namespace


def _user(account: Account) -> Expression:
    return Text(("system:serviceaccount:", ReleaseNamespace(), f":{account.name}"))


def _webhook_configurations() -> list[Tree]:
    """Without webhooks: whoever serves fills them in, with the certificate that it shows.

    So an API server never asks where nobody answers yet; and nothing is left of them when the chart goes.
    """

    def configuration(kind: str, name: str) -> Tree:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {
                "name": name,
                "labels": {APP_LABEL: WEBHOOK_SERVICE},
                "annotations": if_set("grove.webhookAnnotations"),
            },
        }

    protected = AllOf((ENABLED, Value(f"{_AUTHORIZER}.enabled")))
    validating = "ValidatingWebhookConfiguration"
    return [
        When(ENABLED, configuration("MutatingWebhookConfiguration", SETS_DEFAULTED)),
        When(ENABLED, configuration(validating, SETS_VALIDATED)),
        When(ENABLED, configuration(validating, BINDINGS_VALIDATED)),
        When(protected, configuration(validating, CHILDREN_PROTECTED)),
    ]


def _service() -> Tree:
    """Metrics of all; webhooks of those pods that have a port of that name."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": WEBHOOK_SERVICE, "namespace": ReleaseNamespace(), "labels": _LABELS},
        "spec": {
            "selector": _LABELS,
            "ports": [
                {"name": METRICS, "protocol": "TCP", "port": METRICS_PORT, "targetPort": METRICS},
                {"name": _WEBHOOKS, "protocol": "TCP", "port": Value(f"{_SERVER}.port"), "targetPort": _WEBHOOKS},
            ],
        },
    }


def _service_monitor() -> Tree:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {
            "name": "grove-operator-monitor",
            "namespace": ReleaseNamespace(),
            "labels": if_set("grove.serviceMonitor.labels"),
        },
        "spec": {"selector": {"matchLabels": _LABELS}, "endpoints": [{"port": METRICS}]},
    }


def _disruption_budget() -> Tree:
    """Sets can't be written while nobody answers the API server."""
    name = GROVE_ADMISSION.name
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": ReleaseNamespace()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {APP_LABEL: name}}},
    }


def _workload(account: Account) -> Workload:
    arguments: list[Tree] = [f"--config={_CONFIG_FOLDER}/{_CONFIG_FILE}"]
    ports: list[Tree] = []
    volumes: list[Tree] = [{"name": "config", "configMap": {"name": _CONFIG}}]
    mounts: list[Tree] = [{"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True}]
    if account == GROVE_OPERATOR:
        named = Value("grove.initContainerImage")
        arguments += [
            Text(("--grove-init-container-image=", FirstOf((named, image())))),
            When(Not(named), f"--grove-init-container-command={_INIT_COMMAND}"),
        ]
    if account == GROVE_ADMISSION:
        arguments.append("--no-grove-create-webhook-configurations")
        ports.append({"name": _WEBHOOKS, "containerPort": Value(f"{_SERVER}.port"), "protocol": "TCP"})
        # There only where somebody else keeps certificates.
        secret = {"secretName": Value(f"{_SERVER}.secretName"), "optional": True}
        volumes.append({"name": "certificates", "secret": secret})
        mounts.append({"name": "certificates", "mountPath": "/etc/grove-operator/webhook-certs", "readOnly": True})
    enabled, own, everybodys = (
        Value(f"{_PRIORITY}.enabled"),
        Value(f"{_PRIORITY}.name"),
        Value("global.priorityClassName"),
    )
    return Workload(
        account,
        account.service,
        "grove",
        arguments,
        labels=_LABELS,
        ports=ports,
        volumes=volumes,
        mounts=mounts,
        # Another configuration is read by other pods.
        annotations={"bosket.dev/config-hash": Sha256(_document())},
        priority_class=When(AnyOf((enabled, everybodys)), IfElse(enabled, own, everybodys)),
    )
