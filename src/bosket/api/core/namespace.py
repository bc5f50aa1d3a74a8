"""Namespaces, and what limits them."""

from __future__ import annotations

from bosket.api.core.pod import PodTemplateSpec
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity


class NamespaceCondition(Wire):
    """One observed aspect of a namespace, most often of its deletion."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class NamespaceSpec(Wire):
    """Who must finish before a namespace is gone."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Wire):
    """Whether a namespace is active or terminating."""

    phase: str = ""
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(KubeObject):
    """A scope for names."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ScopedResourceSelectorRequirement(Wire):
    """One condition on the objects that a quota counts."""

    scopeName: str
    operator: str
    values: tuple[str, ...] = ()


class ScopeSelector(Wire):
    """Which objects a quota counts."""

    matchExpressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Wire):
    """How much a namespace may use."""

    hard: dict[str, Quantity] = {}
    scopes: tuple[str, ...] = ()
    scopeSelector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire):
    """How much a namespace uses."""

    hard: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}


class ResourceQuota(KubeObject):
    """A bound on what a namespace uses in total."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Wire):
    """Bounds and defaults for one type of object."""

    type: str
    max: dict[str, Quantity] = {}
    min: dict[str, Quantity] = {}
    default: dict[str, Quantity] = {}
    defaultRequest: dict[str, Quantity] = {}
    maxLimitRequestRatio: dict[str, Quantity] = {}


class LimitRangeSpec(Wire):
    """All bounds of a LimitRange."""

    limits: tuple[LimitRangeItem, ...] | None = ()


class LimitRange(KubeObject):
    """Bounds and defaults for each object of a namespace."""

    spec: LimitRangeSpec = LimitRangeSpec()


class ReplicationControllerCondition(Wire):
    """One observed aspect of a replication controller."""

    type: str
    status: str
    lastTransitionTime: str | None = None
    reason: str = ""
    message: str = ""


class ReplicationControllerSpec(Wire):
    """How many pods of which template."""

    replicas: int | None = None
    minReadySeconds: int = 0
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Wire):
    """How many there are."""

    replicas: int
    fullyLabeledReplicas: int = 0
    readyReplicas: int = 0
    availableReplicas: int = 0
    observedGeneration: int = 0
    conditions: tuple[ReplicationControllerCondition, ...] = ()


class ReplicationController(KubeObject):
    """Keeps a number of pods running; ReplicaSet took its place."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus | None = None
