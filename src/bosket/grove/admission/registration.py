"""The webhook configurations of Grove's operator, by the names that its chart gives them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from bosket.api.admission import (
    MutatingWebhook,
    MutatingWebhookConfiguration,
    RuleWithOperations,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from bosket.api.grove.naming import (
    BINDINGS_VALIDATED,
    CHILDREN_PROTECTED,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    SETS_DEFAULTED,
    SETS_VALIDATED,
)
from bosket.api.keys import APP_LABEL
from bosket.api.object import LabelSelector, ObjectMeta
from bosket.grove.admission.review_handlers import AUTHORIZE, DEFAULT_SETS, VALIDATE_BINDINGS, VALIDATE_SETS
from bosket.runtime.webhook.registration import TIMEOUT_SECONDS, Configuration, Reach

#: Names of webhooks, which refusals begin with.
SET_DEFAULTING: Final = "pcs.defaulting.webhooks.grove.io"
SET_VALIDATING: Final = "pcs.validating.webhooks.grove.io"
BINDING_VALIDATING: Final = "clustertopology.validating.webhooks.grove.io"
AUTHORIZER: Final = "authorizer.webhooks.grove.io"

_SETS: Final = RuleWithOperations(
    operations=("CREATE", "UPDATE"),
    apiGroups=("grove.io",),
    apiVersions=("v1alpha1",),
    resources=("podcliquesets",),
    scope="Namespaced",
)
_BINDINGS: Final = replace(_SETS, resources=("clustertopologybindings",), scope="Cluster")


def configurations(reach: Reach, trusted_pem: bytes, *, authorizer: bool) -> list[Configuration]:
    """The objects as they should be. Every field that a server would fill in is there, so that they can be compared."""

    def webhook(name: str, path: str, *rules: RuleWithOperations, managed: bool = False) -> dict[str, Any]:
        labels = {MANAGED_BY_LABEL: MANAGED_BY} if managed else {}
        return {
            "name": name,
            "clientConfig": reach.client_config(path, trusted_pem),
            "rules": rules,
            "failurePolicy": "Fail",
            "matchPolicy": "Exact",
            "namespaceSelector": LabelSelector(),
            "objectSelector": LabelSelector(matchLabels=labels),
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "admissionReviewVersions": ("v1",),
        }

    def validating(name: str, fields: dict[str, Any]) -> ValidatingWebhookConfiguration:
        return ValidatingWebhookConfiguration(
            metadata=replace(meta, name=name), webhooks=(ValidatingWebhook(**fields),)
        )

    meta = ObjectMeta(labels={APP_LABEL: reach.service_name})
    defaulting = MutatingWebhook(reinvocationPolicy="Never", **webhook(SET_DEFAULTING, DEFAULT_SETS, _SETS))
    found: list[Configuration] = [
        MutatingWebhookConfiguration(metadata=replace(meta, name=SETS_DEFAULTED), webhooks=(defaulting,)),
        validating(SETS_VALIDATED, webhook(SET_VALIDATING, VALIDATE_SETS, _SETS)),
        validating(BINDINGS_VALIDATED, webhook(BINDING_VALIDATING, VALIDATE_BINDINGS, _BINDINGS)),
    ]
    if authorizer:
        rules = tuple(_protected())
        found.append(validating(CHILDREN_PROTECTED, webhook(AUTHORIZER, AUTHORIZE, *rules, managed=True)))
    return found


def _protected() -> list[RuleWithOperations]:
    """What is kept from others. Subresources aren't, so that everything can still be scaled."""
    changed, made = ("UPDATE", "DELETE"), ("CREATE", "UPDATE", "DELETE")

    def rule(group: str, versions: tuple[str, ...], operations: tuple[str, ...], *resources: str) -> RuleWithOperations:
        return RuleWithOperations(
            operations=operations, apiGroups=(group,), apiVersions=versions, resources=resources, scope="Namespaced"
        )

    return [
        rule("", ("v1",), changed, "secrets", "serviceaccounts", "services"),
        rule("", ("v1",), ("UPDATE",), "pods"),
        rule("rbac.authorization.k8s.io", ("v1",), changed, "roles", "rolebindings"),
        rule("autoscaling", ("v1", "v2"), changed, "horizontalpodautoscalers"),
        rule("grove.io", ("v1alpha1",), made, "podcliques", "podcliquescalinggroups"),
        rule("scheduler.grove.io", ("v1alpha1",), made, "podgangs"),
    ]
