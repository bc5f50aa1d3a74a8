"""grove.io/v1alpha1 PodClique: pods of one role."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bosket.api.autoscaling import MetricSpec
from bosket.api.core import PodSpec
from bosket.api.crd_marks import AGE, Column, Counter, Int32, Int64, Scale, Timestamp, schema
from bosket.api.grove.status import LastError
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource


class AutoScalingConfig(Wire):
    """How a HorizontalPodAutoscaler scales the replicas."""

    maxReplicas: Int32
    minReplicas: Int32 | None = None
    """The number of replicas if left out; not less than minAvailable."""
    metrics: Annotated[tuple[MetricSpec, ...], schema(list_type="atomic")] = ()
    """What to scale by; 80 % of the requested CPU if left out."""


class PodCliqueSpec(Wire, kw_only=True):
    """What the pods of a role look like, and how many there are."""

    # Grove's schema wants roleName and replicas, but its webhook fills them in before that is checked. So they are
    # always written, also by us, and a manifest may leave them out.
    roleName: Annotated[str, schema(default="")]
    """What the pods are for; unique in the PodCliqueSet. The name of the clique if left out."""
    podSpec: PodSpec
    replicas: Annotated[int, schema(format="int32", default=1)]
    """How many pods: 1 if left out."""
    minAvailable: Int32 | None = None
    """How many of them must be able to run together: all if left out."""
    startsAfter: tuple[str, ...] = ()
    """PodCliques whose pods must be ready first."""
    autoScalingConfig: AutoScalingConfig | None = None


class PodsSelectedToUpdate(Wire):
    """Ready pods that a rolling update replaces, one after the other."""

    current: str
    completed: tuple[str, ...] = ()


class PodCliqueUpdateProgress(Wire, kw_only=True):
    """How far a rolling update is."""

    updateStartedAt: Timestamp | None = None
    updateEndedAt: Timestamp | None = None
    podCliqueSetGenerationHash: str
    podTemplateHash: str
    readyPodsSelectedToUpdate: PodsSelectedToUpdate | None = None


class PodCliqueStatus(Wire):
    """How the pods of a role fare."""

    observedGeneration: Int64 | None = None
    lastErrors: tuple[LastError, ...] = ()
    replicas: Int32 = 0
    """Pods that are not being deleted."""
    readyReplicas: Counter = 0
    updatedReplicas: Counter = 0
    """Pods of the current template."""
    scheduleGatedReplicas: Counter = 0
    scheduledReplicas: Counter = 0
    hpaPodSelector: str | None = None
    """Selector of the pods, for autoscalers."""
    conditions: tuple[Condition, ...] = ()
    currentPodCliqueSetGenerationHash: str | None = None
    currentPodTemplateHash: str | None = None
    updateProgress: PodCliqueUpdateProgress | None = None


class PodClique(KubeObject, kw_only=True):
    """Pods of one role, which a PodCliqueSet or a PodCliqueScalingGroup owns."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("MinAvail", ".spec.minAvailable", "integer"),
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Scheduled", ".status.scheduledReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("Gated", ".status.scheduleGatedReplicas", "integer", priority=1),
        Column("MinBreached", '.status.conditions[?(@.type=="MinAvailableBreached")].status', priority=1),
        AGE,
    )
    SCALE: ClassVar[Scale] = Scale(selector=".status.hpaPodSelector")

    spec: PodCliqueSpec
    status: PodCliqueStatus = PodCliqueStatus()


POD_CLIQUE = Resource(
    "grove.io",
    "v1alpha1",
    "PodClique",
    "podcliques",
    PodClique,
    short_names=("pclq",),
    subresources=("status", "scale"),
)
