"""grove.io/v1alpha1 PodCliqueScalingGroup: PodCliques that are scaled together."""

from __future__ import annotations

from typing import ClassVar

from bosket.api.crd_marks import AGE, Column, Counter, Int32, Int64, Scale, Timestamp
from bosket.api.grove.status import LastError
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource


class PodCliqueScalingGroupSpec(Wire, kw_only=True):
    """Which PodCliques are scaled together, and how many times."""

    replicas: Int32 = 1
    minAvailable: Int32 = 1
    """Replicas that are part of the base gang; each one above is a gang of its own."""
    cliqueNames: tuple[str, ...]
    """Names of the PodCliques in the PodCliqueSet's template."""


class ReplicasSelectedToUpdate(Wire):
    """Ready replicas that a rolling update replaces, one after the other."""

    current: Int32
    completed: tuple[Int32, ...] = ()


class PodCliqueScalingGroupUpdateProgress(Wire, kw_only=True):
    """How far a rolling update is."""

    updateStartedAt: Timestamp
    updateEndedAt: Timestamp | None = None
    podCliqueSetGenerationHash: str
    updatedPodCliquesCount: Counter = 0
    totalPodCliquesCount: Counter = 0
    readyReplicaIndicesSelectedToUpdate: ReplicasSelectedToUpdate | None = None


class PodCliqueScalingGroupStatus(Wire):
    """How the replicas of a scaling group fare."""

    replicas: Int32 = 0
    scheduledReplicas: Counter = 0
    availableReplicas: Counter = 0
    updatedReplicas: Counter = 0
    selector: str | None = None
    """Selector of the pods, for autoscalers."""
    observedGeneration: Int64 | None = None
    lastErrors: tuple[LastError, ...] = ()
    conditions: tuple[Condition, ...] = ()
    currentPodCliqueSetGenerationHash: str | None = None
    updateProgress: PodCliqueScalingGroupUpdateProgress | None = None


class PodCliqueScalingGroup(KubeObject, kw_only=True):
    """PodCliques of a PodCliqueSet that are scaled together."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("MinAvail", ".spec.minAvailable", "integer"),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Available", ".status.availableReplicas", "integer"),
        Column("Scheduled", ".status.scheduledReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", "integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", "integer"),
        Column("MinBreached", '.status.conditions[?(@.type=="MinAvailableBreached")].status', priority=1),
        AGE,
    )
    SCALE: ClassVar[Scale] = Scale(selector=".status.selector")

    spec: PodCliqueScalingGroupSpec
    status: PodCliqueScalingGroupStatus = PodCliqueScalingGroupStatus()


POD_CLIQUE_SCALING_GROUP = Resource(
    "grove.io",
    "v1alpha1",
    "PodCliqueScalingGroup",
    "podcliquescalinggroups",
    PodCliqueScalingGroup,
    short_names=("pcsg",),
    subresources=("status", "scale"),
)
