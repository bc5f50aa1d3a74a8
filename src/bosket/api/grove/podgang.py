"""scheduler.grove.io/v1alpha1 PodGang: the pods that must be scheduled together, independent of the scheduler."""

from __future__ import annotations

from typing import ClassVar

from bosket.api.crd_marks import AGE, Column, Int32
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource


class NamespacedName(Wire):
    """An object of a kind that the field's name tells."""

    namespace: str
    name: str


class GangPackConstraint(Wire):
    """Which domain pods are packed into; both are keys of node labels."""

    required: str | None = None
    """All pods run where this label has one value, or don't run."""
    preferred: str | None = None
    """Pods run where this label has one value if that is possible."""


class GangTopologyConstraint(Wire):
    """Keeps pods close to each other."""

    packConstraint: GangPackConstraint | None = None


class GangPodGroup(Wire):
    """Pods of a gang that are alike."""

    name: str
    """Name of their PodClique."""
    podReferences: tuple[NamespacedName, ...]
    minReplicas: Int32
    """How many of them must be able to run together."""
    topologyConstraint: GangTopologyConstraint | None = None


class TopologyConstraintGroupConfig(Wire):
    """Keeps several pod groups close to each other."""

    name: str
    podGroupNames: tuple[str, ...]
    topologyConstraint: GangTopologyConstraint | None = None


class PodGangSpec(Wire):
    """What a gang consists of."""

    podgroups: tuple[GangPodGroup, ...]
    topologyConstraint: GangTopologyConstraint | None = None
    """For all pods of the gang."""
    topologyConstraintGroupConfigs: tuple[TopologyConstraintGroupConfig, ...] = ()
    """For some of its pod groups together."""
    priorityClassName: str = ""
    reuseReservationRef: NamespacedName | None = None
    """A gang whose place this one should take, unless there is a better one."""


class PodGangStatus(Wire):
    """How a gang fares."""

    phase: str
    """Pending, Starting or Running."""
    conditions: tuple[Condition, ...] = ()
    placementScore: float | None = None
    """How well the gang's topology constraints are met; 1 is best."""


class PodGang(KubeObject, kw_only=True):
    """Pods of a PodCliqueSet that are scheduled together, or not at all."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("Phase", ".status.phase"), AGE)

    spec: PodGangSpec
    # Grove wants a phase in every status; an object without a status reads as one whose phase is still empty.
    status: PodGangStatus = PodGangStatus(phase="")


POD_GANG = Resource(
    "scheduler.grove.io",
    "v1alpha1",
    "PodGang",
    "podgangs",
    PodGang,
    # Grove's short name `pg` is left to KAI's PodGroup: with both installed kubectl would show the wrong kind.
    subresources=("status",),
)
