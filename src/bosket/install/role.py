"""Roles and bindings for the accounts, made of their rights.

What is needed anywhere is in a ClusterRole; what is needed in one namespace only, in a Role there. The operator needs
none of these rights itself: roles come with the installation, and it only names the accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bosket.api.keys import RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE, SYSTEM_NAMESPACE
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from bosket.install.account import Account
from bosket.install.right import Right, Scope, verbs_by_object

_GROUP: Final = "rbac.authorization.k8s.io"

#: Which namespace is meant by a scope; a right that is limited to none has none.
Namespaces = Mapping[Scope, str]
DEFAULT_NAMESPACES: Final[Namespaces] = {
    "own": SYSTEM_NAMESPACE,
    "reservation": RESERVATION_NAMESPACE,
    "scale": SCALE_ADJUST_NAMESPACE,
}


def rules(rights: Iterable[Right]) -> tuple[PolicyRule, ...]:
    """As few rules as allow exactly this: resources of a group that share verbs and names share a rule."""
    resources: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for (group, resource, _, name), verbs in verbs_by_object(rights).items():
        resources.setdefault((group, tuple(verbs), name), []).append(resource)
    merged: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (group, allowed, name), found in resources.items():
        merged.setdefault((group, allowed, tuple(found)), []).append(name)
    return tuple(
        PolicyRule(
            apiGroups=(group,),
            resources=together,
            verbs=allowed,
            resourceNames=tuple(names) if names != [""] else (),
        )
        for (group, allowed, together), names in merged.items()
    )


def role_objects(account: Account, rights: Iterable[Right], namespaces: Namespaces) -> list[KubeObject]:
    """The account's roles, and the bindings that give them to it."""
    by_scope: dict[Scope, list[Right]] = {}
    for right in rights:
        by_scope.setdefault(right.scope, []).append(right)
    home = namespaces["reservation" if account.in_reservation_namespace else "own"]
    subject = Subject(kind="ServiceAccount", name=account.name, namespace=home)
    objects: list[KubeObject] = []
    for scope in sorted(by_scope):
        made = _cluster_role if scope == "cluster" else _role
        objects += made(account, rules(by_scope[scope]), subject, namespaces.get(scope, ""))
    return objects


def _cluster_role(
    account: Account, allowed: tuple[PolicyRule, ...], subject: Subject, _namespace: str
) -> list[KubeObject]:
    meta = ObjectMeta(name=account.role_name)
    reference = RoleRef(apiGroup=_GROUP, kind="ClusterRole", name=account.role_name)
    return [
        ClusterRole(metadata=meta, rules=allowed),
        ClusterRoleBinding(metadata=meta, subjects=(subject,), roleRef=reference),
    ]


def _role(account: Account, allowed: tuple[PolicyRule, ...], subject: Subject, namespace: str) -> list[KubeObject]:
    meta = ObjectMeta(name=account.role_name, namespace=namespace)
    reference = RoleRef(apiGroup=_GROUP, kind="Role", name=account.role_name)
    return [
        Role(metadata=meta, rules=allowed),
        RoleBinding(metadata=meta, subjects=(subject,), roleRef=reference),
    ]
