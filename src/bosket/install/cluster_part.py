"""What a cluster gets beside the services: namespaces, accounts and roles, queues and priority classes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bosket.api.grove.operator_configuration import WebhookServerConfiguration
from bosket.api.keys import PRIORITY_CLASSES, SCALE_ADJUST_NAMESPACE
from bosket.api.object import KubeObject
from bosket.api.table import resource_of
from bosket.install import grove_part
from bosket.install.account import OPERATOR, Account
from bosket.install.expression import AllOf, Expression, Not, ReleaseNamespace, Value
from bosket.install.right import Right, Scope, read_rights
from bosket.install.role import role_objects
from bosket.install.template import Tree, When, if_set

#: What administrators have made theirs stays when the chart goes.
_KEEP: Final = {"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false"}
_AUTOSCALING: Final = Value("global.clusterAutoscaling")
_RESERVATION: Final = "global.resourceReservation"
#: What stands in manifests until the values are known.
_PLACEHOLDERS: Final[dict[Scope, str]] = {
    "own": "\0own",
    "reservation": "\0reservation",
    "scale": "\0scale",
}
_RESERVATION_ACCOUNT: Final = "\0account"
_MEANT: Final[dict[str, Expression]] = {
    "\0own": ReleaseNamespace(),
    "\0reservation": Value(f"{_RESERVATION}.namespace"),
    "\0scale": Value("nodescaleadjuster.scalingPodNamespace"),
    _RESERVATION_ACCOUNT: Value(f"{_RESERVATION}.serviceAccount"),
    WebhookServerConfiguration().secretName: Value("grove.config.server.webhooks.secretName"),
}


def namespaces() -> list[Tree]:
    """Those beside the chart's own."""
    reservation = _namespace(Value(f"{_RESERVATION}.namespace"), f"{_RESERVATION}.namespaceLabels")
    reservation["metadata"]["annotations"] = _KEEP
    scaling = _namespace(Value("nodescaleadjuster.scalingPodNamespace"), "nodescaleadjuster.labels")
    return [When(Value(f"{_RESERVATION}.createNamespace"), reservation), When(_AUTOSCALING, scaling)]


def _namespace(name: Expression, labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": if_set(labels)}}


def accounts() -> list[Tree]:
    """Accounts of programs that the operator doesn't deploy: itself, reservation pods, scaling pods.

    Scaling pods have one of their namespace's name, as a Config has it by default.
    """
    secrets = if_set("global.imagePullSecrets")
    scaling = _account(SCALE_ADJUST_NAMESPACE, Value("nodescaleadjuster.scalingPodNamespace"))
    return [
        {**_account(OPERATOR.name, ReleaseNamespace()), "imagePullSecrets": secrets},
        When(
            Value(f"{_RESERVATION}.createServiceAccount"),
            {
                **_account(Value(f"{_RESERVATION}.serviceAccount"), Value(f"{_RESERVATION}.namespace")),
                "imagePullSecrets": secrets,
            },
        ),
        When(_AUTOSCALING, {**scaling, "imagePullSecrets": secrets, "automountServiceAccountToken": False}),
    ]


def _account(name: str | Expression, namespace: Expression) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def roles(account: Account) -> list[Tree]:
    """An account's roles and bindings; those for scaling pods, or for Grove's services, only where these are there."""
    own: frozenset[Right] = read_rights().get(account.name, frozenset())
    documents = []
    for each in role_objects(account, own, _PLACEHOLDERS):
        document = _filled(_manifest(each), account)
        only_when_scaling = each.metadata.namespace == _PLACEHOLDERS["scale"] or account.only_when_scaling
        if account.is_grove:
            documents.append(When(grove_part.is_deployed(account), document))
        else:
            documents.append(When(_AUTOSCALING, document) if only_when_scaling else document)
    return documents


def _manifest(obj: KubeObject) -> dict[str, Any]:
    resource = resource_of(type(obj))
    return {"apiVersion": resource.api_version, "kind": resource.kind, **msgspec.to_builtins(obj)}


def _filled(tree: Any, account: Account) -> Any:
    """With expressions for placeholders, and for the one account whose name is a value."""
    if isinstance(tree, dict):
        filled = {name: _filled(each, account) for name, each in tree.items()}
        if account.in_reservation_namespace and tree.get("kind") == "ServiceAccount":
            filled["name"] = _MEANT[_RESERVATION_ACCOUNT]
        return filled
    if isinstance(tree, list | tuple):
        return [_filled(each, account) for each in tree]
    return _MEANT.get(tree, tree) if isinstance(tree, str) else tree


def prometheus_roles() -> list[Tree]:
    """Rights of the operator's Prometheus to discover its targets; an external Prometheus has its own."""
    name, group = "kai-prometheus", "rbac.authorization.k8s.io"
    metadata = {"name": name}
    verbs = ["get", "list", "watch"]
    found = [
        {"apiGroups": [""], "resources": ["endpoints", "pods", "services"], "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": found}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": ReleaseNamespace()}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
    }
    deployed = AllOf((Value("prometheus.enabled"), Not(Value("prometheus.externalPrometheusUrl"))))
    return [When(deployed, role), When(deployed, binding)]


def queues() -> list[Tree]:
    """The default queue and its parent. They belong to the cluster's administrators from then on."""
    parent, child = Value("defaultQueue.parentName"), Value("defaultQueue.childName")
    wanted = Value("defaultQueue.createDefaultQueue")
    return [
        When(wanted, _queue(parent, {"resources": Value("defaultQueue.parentResources")})),
        When(wanted, _queue(child, {"parentQueue": parent, "resources": Value("defaultQueue.childResources")})),
    ]


def _queue(name: Expression, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "annotations": _KEEP}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}


def priority_classes() -> list[Tree]:
    """KAI's."""
    return [
        When(
            Value("defaultPriorityClasses.enabled"),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": f"Bosket: {name} workloads",
            },
        )
        for name, value in PRIORITY_CLASSES.items()
    ]
