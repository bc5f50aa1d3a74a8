"""rbac.authorization.k8s.io/v1: who may do what."""

from __future__ import annotations

from bosket.api.object import KubeObject, LabelSelector, Wire


class PolicyRule(Wire):
    """Verbs that are allowed on resources."""

    verbs: tuple[str, ...] = ()
    apiGroups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resourceNames: tuple[str, ...] = ()
    nonResourceURLs: tuple[str, ...] = ()


class Subject(Wire):
    """A user, group or service account."""

    kind: str
    name: str
    apiGroup: str = ""
    namespace: str = ""


class RoleRef(Wire):
    """The role that a binding grants."""

    kind: str
    name: str
    apiGroup: str = ""


class Role(KubeObject):
    """What may be done in a namespace."""

    rules: tuple[PolicyRule, ...] | None = ()


class RoleBinding(KubeObject):
    """Grants a role in a namespace."""

    subjects: tuple[Subject, ...] = ()
    roleRef: RoleRef | None = None


class AggregationRule(Wire):
    """Which cluster roles' rules a cluster role is made of."""

    clusterRoleSelectors: tuple[LabelSelector, ...] = ()


class ClusterRole(KubeObject):
    """What may be done in the whole cluster."""

    rules: tuple[PolicyRule, ...] | None = ()
    aggregationRule: AggregationRule | None = None


class ClusterRoleBinding(KubeObject):
    """Grants a cluster role in the whole cluster."""

    subjects: tuple[Subject, ...] = ()
    roleRef: RoleRef | None = None
