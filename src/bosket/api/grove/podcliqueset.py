"""grove.io/v1alpha1 PodCliqueSet: a whole inference or training system: roles, their order, how they scale together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from bosket.api.crd_marks import AGE, Column, Counter, Duration, Int32, Int64, Rule, Scale, Timestamp, schema
from bosket.api.grove.constraint import (
    PodCliqueSetSharingSpec,
    ResourceSharingSpec,
    ScalingGroupSharingSpec,
    TopologyConstraint,
)
from bosket.api.grove.podclique import AutoScalingConfig, PodCliqueSpec
from bosket.api.grove.status import LastError
from bosket.api.object import Condition, KubeObject, Wire
from bosket.api.resource import Resource
from bosket.api.resource_k8s import ResourceClaimTemplateSpec

_NO_PACK_DOMAIN: Final = "packDomain is deprecated and cannot be used on new workloads; use pack.required"


def _no_new_pack_domain(field: str, rule: str) -> Rule:
    """Objects from before `pack` existed may keep their packDomain; new ones are refused with the new name."""
    return Rule(
        f"oldSelf.hasValue() || !has(self.spec.template.{field}) || {rule}",
        _NO_PACK_DOMAIN,
        field_path=f".spec.template.{field}",
        reason="FieldValueForbidden",
        optional_old_self=True,
    )


class PodCliqueTemplateSpec(Wire, kw_only=True):
    """What the PodCliques of one role look like."""

    name: str
    labels: dict[str, str] = {}
    """For the PodClique and its pods."""
    annotations: dict[str, str] = {}
    """For the PodClique and its pods."""
    topologyConstraint: TopologyConstraint | None = None
    resourceSharing: tuple[ResourceSharingSpec, ...] = ()
    spec: PodCliqueSpec


class PodCliqueScalingGroupConfig(Wire, kw_only=True):
    """Roles that are scaled together."""

    name: str
    cliqueNames: tuple[str, ...]
    annotations: dict[str, str] = {}
    replicas: Int32 = 1
    """How many there are at first; later the PodCliqueScalingGroup itself is scaled."""
    minAvailable: Int32 = 1
    """Replicas that are part of the base gang; each one above is a gang of its own."""
    scaleConfig: AutoScalingConfig | None = None
    resourceSharing: tuple[ScalingGroupSharingSpec, ...] = ()
    topologyConstraint: TopologyConstraint | None = None


class HeadlessServiceConfig(Wire):
    """The Service by which the pods of a replica find each other."""

    publishNotReadyAddresses: bool = True
    """Whether pods are found before they are ready."""


class ResourceClaimTemplateConfig(Wire):
    """A template of resource claims that `resourceSharing` refers to by name."""

    name: str
    templateSpec: ResourceClaimTemplateSpec


class PodCliqueSetTemplateSpec(Wire, kw_only=True):
    """What each replica consists of."""

    cliques: Annotated[tuple[PodCliqueTemplateSpec, ...], schema(list_map_keys=("name",))]
    """The roles."""
    cliqueStartupType: Literal["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"] = (
        "CliqueStartupTypeAnyOrder"
    )
    """Whether roles start in any order, in that of the list, or as their startsAfter says."""
    priorityClassName: str = ""
    headlessServiceConfig: HeadlessServiceConfig | None = None
    topologyConstraint: TopologyConstraint | None = None
    terminationDelay: Duration | None = None
    """How long a replica may be below its minimum before it is terminated as a whole: 4h if left out."""
    resourceClaimTemplates: tuple[ResourceClaimTemplateConfig, ...] = ()
    resourceSharing: tuple[PodCliqueSetSharingSpec, ...] = ()
    podCliqueScalingGroups: tuple[PodCliqueScalingGroupConfig, ...] = ()


class PodCliqueSetUpdateStrategy(Wire):
    """How changes of the template reach the pods."""

    type: Literal["RollingRecreate", "OnDelete"] = "RollingRecreate"
    """Replica by replica, or whenever somebody deletes a pod."""


class PodCliqueSetSpec(Wire, kw_only=True):
    """How many replicas of what."""

    replicas: Annotated[int, schema(format="int32", default=0)] = 0
    updateStrategy: PodCliqueSetUpdateStrategy | None = None
    template: PodCliqueSetTemplateSpec


class PodGangStatusSummary(Wire, kw_only=True):
    """How one of the set's gangs fares."""

    name: str
    phase: Literal["Pending", "Starting", "Running", "Failed", "Succeeded"]
    conditions: tuple[Condition, ...] = ()


class ReplicaUpdateProgress(Wire):
    """A replica that is being updated."""

    replicaIndex: Int32
    updateStartedAt: Timestamp | None = None
    updateEndedAt: Timestamp | None = None


class PodCliqueSetUpdateProgress(Wire):
    """How far a rolling update is."""

    updateStartedAt: Timestamp | None = None
    updateEndedAt: Timestamp | None = None
    updatedPodCliquesCount: Counter = 0
    totalPodCliquesCount: Counter = 0
    updatedPodCliqueScalingGroupsCount: Counter = 0
    totalPodCliqueScalingGroupsCount: Counter = 0
    currentlyUpdating: tuple[ReplicaUpdateProgress, ...] = ()


class PodCliqueSetStatus(Wire):
    """How the replicas fare."""

    observedGeneration: Int64 | None = None
    conditions: tuple[Condition, ...] = ()
    lastErrors: tuple[LastError, ...] = ()
    replicas: Int32 = 0
    updatedReplicas: Counter = 0
    availableReplicas: Counter = 0
    hpaPodSelector: str | None = None
    """Selector of the pods, for autoscalers."""
    podGangStatuses: tuple[PodGangStatusSummary, ...] = ()
    currentGenerationHash: str | None = None
    updateProgress: PodCliqueSetUpdateProgress | None = None


class PodCliqueSet(KubeObject, kw_only=True):
    """Replicas of a system that consists of several roles."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "oldSelf.hasValue() || !has(self.spec.template.topologyConstraint)"
            " || !has(self.spec.template.topologyConstraint.packDomain)",
            _NO_PACK_DOMAIN,
            field_path=".spec.template.topologyConstraint.packDomain",
            reason="FieldValueForbidden",
            optional_old_self=True,
        ),
        _no_new_pack_domain(
            "cliques",
            "self.spec.template.cliques.all(c, !has(c.topologyConstraint) || !has(c.topologyConstraint.packDomain))",
        ),
        _no_new_pack_domain(
            "podCliqueScalingGroups",
            "self.spec.template.podCliqueScalingGroups.all(g,"
            " !has(g.topologyConstraint) || !has(g.topologyConstraint.packDomain))",
        ),
    )
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Replicas", ".spec.replicas", "integer"),
        Column("Available", ".status.availableReplicas", "integer"),
        Column("Updated", ".status.updatedReplicas", "integer"),
        Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount", "integer"),
        Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount", "integer"),
        Column("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount", "integer"),
        Column("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount", "integer"),
        AGE,
    )
    SCALE: ClassVar[Scale] = Scale(selector=".status.hpaPodSelector")

    spec: PodCliqueSetSpec
    status: PodCliqueSetStatus = PodCliqueSetStatus()


POD_CLIQUE_SET = Resource(
    "grove.io",
    "v1alpha1",
    "PodCliqueSet",
    "podcliquesets",
    PodCliqueSet,
    short_names=("pcs",),
    subresources=("status", "scale"),
)
