"""What the versions of the gang API have in common: policies, constraints and claims of a group of pods."""

from __future__ import annotations

from bosket.api.object import Wire


class ControllerReference(Wire):
    """The object that a workload was made for, in the same namespace."""

    kind: str
    name: str
    apiGroup: str = ""


class BasicSchedulingPolicy(Wire):
    """Pods are scheduled one by one; it has no settings."""


class GangSchedulingPolicy(Wire):
    """At least `minCount` pods are scheduled together or none."""

    minCount: int


class PodGroupSchedulingPolicy(Wire):
    """Exactly one of basic and gang."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Wire):
    """A node label whose values are the domains of which a group shares one."""

    key: str


class PodGroupSchedulingConstraints(Wire):
    """Where the pods of a group must be together."""

    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Wire):
    """A ResourceClaim, or a template of one, that all pods of a group share."""

    name: str
    resourceClaimName: str | None = None
    resourceClaimTemplateName: str | None = None


class PodGroupResourceClaimStatus(Wire):
    """Which ResourceClaim was made for a claim of the group."""

    name: str
    resourceClaimName: str | None = None
