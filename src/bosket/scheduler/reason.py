"""Why something isn't placed: values with numbers in them, and the sentences that are made of them.

Plugins and actions give these back instead of raising; events, conditions and `explain` render them. The wording of
the rendered texts is KAI's where users and tools know it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bosket.api.object import ObjectKey
from bosket.api.time import format_time

#: Reason codes that stand in PodGroup.status.schedulingConditions[].reasons[].reason.
OVER_LIMIT = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
POD_SCHEDULING_ERRORS = "PodSchedulingErrors"
INVALID_SPEC = "InvalidSpec"
NOT_READY = "NotReady"
NOT_ENOUGH = "Not enough resources for the workload"
PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
#: For what KAI has no code for: the condition then has a message, and no list of reasons.
NO_CODE = ""


@dataclass(frozen=True, slots=True)
class NodesRefused:
    """No node takes the pod: how many refuse it, by what they say."""

    by_reason: Mapping[str, int]

    def __str__(self) -> str:
        parts = ". \n".join(sorted(f"{count} {reason}" for reason, count in self.by_reason.items()))
        return f"no nodes with enough resources were found: {parts}." if parts else "the cluster has no nodes"

    @staticmethod
    def of(reasons: Mapping[str, int] | Counter[str]) -> NodesRefused:
        return NodesRefused({reason: int(count) for reason, count in reasons.items() if count})


@dataclass(frozen=True, slots=True)
class PodUnfit:
    """The pod itself can't be placed, whatever node it is."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class GangShort:
    """The gang's minimum can't be placed together."""

    first_failed: ObjectKey
    placed: int
    required: int
    subgroup: str  #: empty when the job has no sub-groups
    because: NodesRefused | PodUnfit
    code: str = POD_SCHEDULING_ERRORS

    def __str__(self) -> str:
        if not self.placed:
            return f"Resources were not found for pod {self.first_failed} due to: {self.because}"
        where = f" of sub-group {self.subgroup}" if self.subgroup else ""
        return (
            f"Resources were found for {self.placed} pods{where} while {self.required} are required for gang "
            f"scheduling. Additional pods cannot be scheduled due to: {self.because}"
        )


@dataclass(frozen=True, slots=True)
class OverCapacity:
    """A queue on the job's path has no room for it, by its limit or, for non-preemptible jobs, by its quota."""

    code: str  #: OVER_LIMIT or NON_PREEMPTIBLE_OVER_QUOTA
    queue: str
    resource: str
    allowed: float
    allocated: float
    requested: float

    def __str__(self) -> str:
        allowed, allocated, requested = (f"{value:g}" for value in (self.allowed, self.allocated, self.requested))
        unit = self.resource
        if self.code == OVER_LIMIT:
            return (
                f"{self.queue} quota has reached the allowable limit of {unit}. Limit is {allowed} {unit}, "
                f"currently {allocated} {unit} allocated and workload requested {requested} {unit}"
            )
        return (
            f"Non-preemptible workload is over quota. Workload requested {requested} {unit}, but {self.queue} quota is "
            f"{allowed} {unit}, while {allocated} {unit} are already allocated for non-preemptible pods. "
            f"Use a preemptible workload to go over quota."
        )


@dataclass(frozen=True, slots=True)
class DomainShort:
    """A domain of a topology that can't hold all pods that belong together."""

    domain: str
    pods: int = 0  #: that it could take
    required: int = 0
    resources: tuple[tuple[str, float, float], ...] = ()  #: of pods that differ: name, amount asked for, amount free

    def __str__(self) -> str:
        name = self.domain
        if self.resources:
            parts = (f"{each}, requested: {asked:g}, available: {free:g}" for each, asked, free in self.resources)
            return f"<{name}>: " + ", ".join(f"{name} didn't have enough resources: {part}" for part in parts)
        return f"<{name}>: node-group {name} can allocate only {self.pods} of {self.required} required pods"


@dataclass(frozen=True, slots=True)
class DomainsShort:
    """All domains of a level, each with what it lacks."""

    domains: tuple[DomainShort, ...]
    code: str = NOT_ENOUGH

    def __str__(self) -> str:
        return ".\n".join(map(str, self.domains))


@dataclass(frozen=True, slots=True)
class TopologyUnsatisfied:
    """No domain of the level that is asked for can hold the pods that belong together."""

    topology: str
    level: str
    job: ObjectKey
    subgroup: str  #: empty for the job as a whole
    because: str = ""
    shortage: DomainsShort | None = None  #: a reason of its own
    code: str = POD_SCHEDULING_ERRORS

    def __str__(self) -> str:
        who = f"job <{self.job}>" + (f", subgroup {self.subgroup}" if self.subgroup else "")
        text = f"topology {self.topology}, requirement {self.level} couldn't be satisfied for {who}"
        return f"{text}: {self.because}" if self.because else text


@dataclass(frozen=True, slots=True)
class TopologyUnusable:
    """A constraint that can't be followed, because there is no such topology or level."""

    text: str
    code: str = POD_SCHEDULING_ERRORS

    def __str__(self) -> str:
        return self.text

    @staticmethod
    def unknown(topology: str) -> TopologyUnusable:
        return TopologyUnusable(f"Requested topology {topology} does not exist")

    @staticmethod
    def without_level(topology: str, group: str) -> TopologyUnusable:
        who = f"sub-group {group}" if group else "workload"
        return TopologyUnusable(f"topology constraint error: {who} names topology {topology}, and no level of it")

    @staticmethod
    def unknown_level(topology: str, group: str, kind: str, level: str) -> TopologyUnusable:
        who = f"sub-group {group}" if group else "workload"
        return TopologyUnusable(
            f"topology constraint error: {who} specified '{level}' as the {kind} topology constraint level, but the "
            f"topology tree '{topology}' does not contain a level with this name"
        )


@dataclass(frozen=True, slots=True)
class QueueUnusable:
    """The job's queue doesn't exist or can't hold jobs."""

    text: str
    code: str = QUEUE_DOES_NOT_EXIST

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class SpecUnusable:
    """The pod group's own spec can't be followed."""

    group: ObjectKey
    problem: str
    code: str = INVALID_SPEC

    def __str__(self) -> str:
        return f"PodGroup {self.group} can't be scheduled: {self.problem}"


@dataclass(frozen=True, slots=True)
class NotReady:
    """Fewer pods exist than the gang needs."""

    required: int
    existing: int
    gated: int
    subgroup: str  #: empty when the job has no sub-groups
    code: str = NOT_READY

    def __str__(self) -> str:
        where = f" for SubGroup {self.subgroup}" if self.subgroup else ""
        return (
            f"Job is not ready for scheduling. Waiting for {self.required} pods{where}, "
            f"currently {self.existing} exist, {self.gated} are gated"
        )


@dataclass(frozen=True, slots=True)
class GatesClosed:
    """All that is left of the job waits for its scheduling gates."""

    gated: int
    code: str = NO_CODE

    def __str__(self) -> str:
        return f"{self.gated} pods wait for their scheduling gates to be lifted"


@dataclass(frozen=True, slots=True)
class NotTried:
    """The cycle looked only at the first jobs of the queue."""

    queue: str
    depth: int
    code: str = NO_CODE

    def __str__(self) -> str:
        return (
            f"Only the first {self.depth} jobs of queue '{self.queue}' are tried in a cycle, and this isn't one of them"
        )


@dataclass(frozen=True, slots=True)
class SearchCutShort:
    """Whom to evict for the job wasn't searched for to the end."""

    action: str
    begun: bool  #: whether there was anything left for this job
    code: str = NO_CODE

    def __str__(self) -> str:
        when = "before the search was complete" if self.begun else "before it was this job's turn"
        return f"The budget for finding jobs to evict (scenarioSearchBudgets) in {self.action} was used up {when}"


@dataclass(frozen=True, slots=True)
class DelayNotElapsed:
    """The job asked not to have others evicted for it so soon."""

    delay: str
    ends: float  #: epoch seconds
    code: str = PREEMPTION_DELAY

    def __str__(self) -> str:
        return (
            f"Workload is within its preemption delay window ({self.delay}) and may not trigger evictions before "
            f"{format_time(self.ends)}"
        )


@dataclass(frozen=True, slots=True)
class MinRuntimeNotElapsed:
    """Others could make room, but haven't run for as long as their queue guarantees."""

    ends: float  #: epoch seconds: when the first of them has
    code: str = NO_CODE

    def __str__(self) -> str:
        return (
            "Jobs that could make room for it are protected by the minimum run time of their queue, the first of them "
            f"until {format_time(self.ends)}"
        )


@dataclass(frozen=True, slots=True)
class EvictionRefused:
    """Others could make room, but may not be evicted now."""

    pod: ObjectKey
    by: str  #: who refuses: "PodDisruptionBudget ml/keep-two"
    code: str = NO_CODE

    def __str__(self) -> str:
        return f"Evicting pod {self.pod}, which could make room, is refused by {self.by}"


JobReason = (
    DelayNotElapsed
    | MinRuntimeNotElapsed
    | DomainsShort
    | EvictionRefused
    | GangShort
    | OverCapacity
    | QueueUnusable
    | SpecUnusable
    | NotReady
    | GatesClosed
    | NotTried
    | SearchCutShort
    | TopologyUnsatisfied
    | TopologyUnusable
)


def unknown_subgroup(subgroup: str, group: ObjectKey) -> str:
    """What a pod is told whose sub-group the pod group doesn't have."""
    return f'Pod references subgroup "{subgroup}", which does not exist in PodGroup {group}'
