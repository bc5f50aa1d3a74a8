"""scheduling.run.ai/v2alpha2 PodGroup: pods that are scheduled together, or not at all."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from bosket.api.crd_marks import AGE, Column, Count, DnsLabel, Duration, Int32, Rule, Timestamp, schema
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity
from bosket.api.resource import Resource

_ONE_MINIMUM = Rule(
    "!(has(self.minMember) && has(self.minSubGroup))",
    "minMember and minSubGroup are mutually exclusive: a minimum counts pods, or sub-groups",
)


class TopologyConstraint(Wire):
    """Keeps pods close to each other. It holds only where `topology` names a Topology."""

    topology: str = ""
    """Name of the Topology whose levels are meant."""
    requiredTopologyLevel: str = ""
    """All pods run inside one domain of this level, or don't run."""
    preferredTopologyLevel: str = ""
    """Pods run inside one domain of this level if that is possible."""


class SubGroup(Wire):
    """A part of a PodGroup with a minimum and a topology of its own; parts form a tree of any depth."""

    RULES: ClassVar[tuple[Rule, ...]] = (_ONE_MINIMUM,)

    name: DnsLabel
    """Unique in the PodGroup; pods name it in their label kai.scheduler/subgroup-name."""
    minMember: Count | None = None
    """Pods that must be able to run together; for sub-groups that hold pods."""
    minSubGroup: Count | None = None
    """Direct children that must be able to run together, all of them if left out; for sub-groups of sub-groups."""
    parent: DnsLabel | None = None
    """Name of the sub-group that this one is part of; directly under the PodGroup if left out."""
    topologyConstraint: TopologyConstraint | None = None


class PodGroupSpec(Wire):
    """What a gang needs in order to run, and on whose account."""

    RULES: ClassVar[tuple[Rule, ...]] = (_ONE_MINIMUM,)

    minMember: Count | None = None
    """Pods that must be able to run together: 1 if there are no sub-groups and nothing is said; 0 makes no gang."""
    minSubGroup: Count | None = None
    """Direct sub-groups that must be able to run together; all of them if left out."""
    queue: str = ""
    """Name of the Queue on whose account the pods run."""
    priorityClassName: str = ""
    """PriorityClass of the gang; the cluster's default, else 50, if there is none of this name."""
    preemptibility: Literal["", "preemptible", "non-preemptible"] = ""
    """Whether others may take this gang's place; by its priority (below 100) if left out."""
    topologyConstraint: TopologyConstraint | None = None
    subGroups: Annotated[tuple[SubGroup, ...], schema(list_map_keys=("name",))] = ()
    """Parts of the gang, each with a minimum and a topology of its own."""
    markUnschedulable: bool | None = None
    """Whether pods that can't be placed get the condition PodScheduled=False; true if left out."""
    schedulingBackoff: Int32 | None = None
    """Cycles to try on a node pool before giving it up: 1, or -1 for never giving up, as also if left out."""
    preemptionDelay: Duration | None = None
    """How long the gang waits, after its creation or last eviction, before it may have others evicted."""
    stalenessGracePeriod: Duration | None = None
    """How long the gang may run below its minimum before it is evicted; negative: for ever."""


class PodGroupCondition(Wire):
    """One observed aspect of a gang's state."""

    type: str = ""
    status: str = ""
    transitionID: str = ""
    lastTransitionTime: Timestamp | None = None
    reason: str = ""
    message: str = ""


class QueueDetails(Wire):
    """The numbers behind a refusal by a queue."""

    name: str = ""
    queueRequestedResources: dict[str, Quantity] = {}
    queueDeservedResources: dict[str, Quantity] = {}
    queueAllocatedResources: dict[str, Quantity] = {}
    queueAllocatedNonPreemptibleResources: dict[str, Quantity] = {}
    queueResourceLimits: dict[str, Quantity] = {}
    podGroupRequestedResources: dict[str, Quantity] = {}
    podGroupRequestedNonPreemptibleResources: dict[str, Quantity] = {}


class UnschedulableDetails(Wire):
    """What a program may want to know of a reason; which field is set depends on the reason."""

    queueDetails: QueueDetails | None = None


class UnschedulableExplanation(Wire):
    """One reason why a gang can't be placed."""

    reason: str = ""
    message: str = ""
    details: UnschedulableDetails | None = None


class SchedulingCondition(Wire):
    """What came of trying to place the gang on one node pool."""

    type: str = ""
    nodePool: str = ""
    reason: str = ""
    """Superseded by `reasons`, and still written for readers that know no better."""
    message: str = ""
    """Superseded by `reasons`, and still written for readers that know no better."""
    reasons: tuple[UnschedulableExplanation, ...] = ()
    lastTransitionTime: Timestamp | None = None
    status: str = ""
    transitionID: str = ""


class PodGroupResourcesStatus(Wire):
    """Resources of the gang's pods."""

    allocated: dict[str, Quantity] = {}
    allocatedNonPreemptible: dict[str, Quantity] = {}
    requested: dict[str, Quantity] = {}


class PodGroupStatus(Wire):
    """How the gang fares. Phase and pod counts are what KAI had before v0.12 and dropped; users want to see them."""

    phase: str = ""
    """Where the gang is in its life."""
    pending: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    conditions: tuple[PodGroupCondition, ...] = ()
    schedulingConditions: tuple[SchedulingCondition, ...] = ()
    """What came of the last try, by node pool; written by the scheduler."""
    resourcesStatus: PodGroupResourcesStatus = PodGroupResourcesStatus()


class PodGroup(KubeObject):
    """A gang: pods that are scheduled together, or not at all."""

    # KAI leaves this kind without columns.
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("Queue", ".spec.queue"),
        Column("Min-Member", ".spec.minMember", "integer"),
        Column("Priority-Class", ".spec.priorityClassName"),
        Column("Phase", ".status.phase"),
        Column("Running", ".status.running", "integer"),
        Column("Min-SubGroup", ".spec.minSubGroup", "integer", priority=1),
        Column("Unschedulable", ".status.schedulingConditions[0].message", priority=1),
        Column("Evicted", '.status.conditions[?(@.type=="Evicted")].message', priority=1),
        AGE,
    )

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP = Resource(
    "scheduling.run.ai",
    "v2alpha2",
    "PodGroup",
    "podgroups",
    PodGroup,
    short_names=("pg",),
    subresources=("status",),
)
