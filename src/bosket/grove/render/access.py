"""What init containers need to watch the pods that they wait for: an account, a role, a binding and a token."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.core import Secret, ServiceAccount
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import role_name, token_secret_name
from bosket.api.keys import TOKEN_ACCOUNT_ANNOTATION, TOKEN_SECRET_TYPE
from bosket.api.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject
from bosket.grove.render.child import child_meta, component_labels

#: What init containers may do, and so what the operator must be allowed: nobody may give away what he hasn't.
RULES: Final = (PolicyRule(apiGroups=("",), resources=("pods", "pods/status"), verbs=("get", "list", "watch")),)
_RBAC: Final = "rbac.authorization.k8s.io"


def service_account(owner: PodCliqueSet, existing: ServiceAccount | None) -> ServiceAccount:
    """The account whose token init containers use."""
    name = owner.metadata.name
    labels = component_labels(name, "pod-service-account", name)
    meta = child_meta(existing, owner, name, labels)
    return replace(existing or ServiceAccount(), metadata=meta, automountServiceAccountToken=True)


def role(owner: PodCliqueSet, existing: Role | None) -> Role:
    """What init containers may do."""
    name = role_name(owner.metadata.name)
    labels = component_labels(owner.metadata.name, "pod-role", _as_label(name))
    return replace(existing or Role(), metadata=child_meta(existing, owner, name, labels), rules=RULES)


def role_binding(owner: PodCliqueSet, existing: RoleBinding | None) -> RoleBinding:
    """Gives the role to the account."""
    name = role_name(owner.metadata.name)
    labels = component_labels(owner.metadata.name, "pod-role-binding", _as_label(name))
    return replace(
        existing or RoleBinding(),
        metadata=child_meta(existing, owner, name, labels),
        subjects=(Subject(kind="ServiceAccount", name=owner.metadata.name, namespace=owner.metadata.namespace),),
        roleRef=RoleRef(apiGroup=_RBAC, kind="Role", name=name),
    )


def token_secret(owner: PodCliqueSet) -> Secret:
    """The Secret that the token controller fills; it is made once and then left to that one."""
    name = token_secret_name(owner.metadata.name)
    labels = component_labels(owner.metadata.name, "pod-sa-token-secret", name)
    meta = child_meta(None, owner, name, labels, {TOKEN_ACCOUNT_ANNOTATION: owner.metadata.name})
    return Secret(metadata=meta, type=TOKEN_SECRET_TYPE)


def has_token(secret: Secret) -> bool:
    """Whether the token controller has filled the Secret."""
    return bool(secret.data.get("token"))


def _as_label(name: str) -> str:
    return name.replace(":", "-")
