"""Reasons: why something isn't placed, as values with amounts, and the sentences rendered from them.

Plugins and actions return reasons instead of raising; events, conditions and answers render them. The rendered texts
are KAI's where users and tools know these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from bosket.api.object import ObjectKey
from bosket.api.time import format_time

#: Type of the condition in PodGroup.status.schedulingConditions of a job that waits.
CONDITION_TYPE = "UnschedulableOnNodePool"
#: Reason codes that stand in PodGroup.status.schedulingConditions[].reasons[].reason.
OVER_LIMIT = "OverLimit"
NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
POD_SCHEDULING_ERRORS = "PodSchedulingErrors"
INVALID_SPEC = "InvalidSpec"
#: Bosket's own code: the job's namespace may not use its queue or priority class.
ACCESS_DENIED = "AccessDenied"
NOT_READY = "NotReady"
NOT_ENOUGH = "Not enough resources for the workload"
PREEMPTION_DELAY = "PreemptionDelayNotElapsed"
SCHEDULER_FAILED = "SchedulerFailed"  # not in KAI, whose scheduler ends
#: For reasons without a code in KAI: the condition has a message and no list of reasons.
NO_CODE = ""


#: The number of nodes that a detailed message names. KAI names all of them; in a large cluster
#: that would be megabytes, on each pod that waits.
MOST_NODES_NAMED = 100


class NodesRefused(msgspec.Struct, frozen=True):
    """No node takes the pod: the number of nodes by reason."""

    by_reason: Mapping[str, int]
    by_node: tuple[tuple[str, str], ...] = ()  #: (node, all that it lacks), by name; empty unless details are wanted
    unnamed: int = 0  #: nodes beside those

    def __str__(self) -> str:
        if self.by_node:
            lines = [f"<{node}>: {text}" for node, text in self.by_node]
            more = [f"and {self.unnamed} other nodes"] if self.unnamed else []
            return "".join(f"\n{line}." for line in ("no nodes with enough resources were found", *lines, *more))
        parts = ". \n".join(sorted(f"{count} {reason}" for reason, count in self.by_reason.items()))
        return f"no nodes with enough resources were found: {parts}." if parts else "the cluster has no nodes"

    @staticmethod
    def of(reasons: Mapping[str, int] | Counter[str]) -> NodesRefused:
        return NodesRefused({reason: int(count) for reason, count in reasons.items() if count})


class PodUnfit(msgspec.Struct, frozen=True):
    """The pod itself can't be placed on any node."""

    text: str

    def __str__(self) -> str:
        return self.text


class GangShort(msgspec.Struct, frozen=True):
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


class OverCapacity(msgspec.Struct, frozen=True):
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


class Scarcity(msgspec.Struct, frozen=True):
    """The scarcest resource for the request; amounts as words with units."""

    resource: str
    free: str
    total: str
    asked: str

    def __str__(self) -> str:
        return f"{self.free} of {self.total} {self.resource} are free, {self.asked} are asked for"


class DomainShort(msgspec.Struct, frozen=True):
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
        if self.pods >= self.required:
            return f"<{name}>: node-group {name} has room for the pods, but not where they may be"
        return f"<{name}>: node-group {name} can allocate only {self.pods} of {self.required} required pods"


class DomainsShort(msgspec.Struct, frozen=True):
    """No domain of a level can hold the pods that belong together."""

    level: str
    domains: tuple[DomainShort, ...]  #: those that are named
    more: int  #: how many there are beside these
    best: DomainShort
    scarcest: Scarcity | None  #: in the best; None for pods that ask for nothing
    code: str = NOT_ENOUGH

    def __str__(self) -> str:
        others = [f"and {self.more} other domains that can't either"] if self.more else []
        return ".\n".join([*map(str, self.domains), *others])

    @property
    def summary(self) -> str:
        count = len(self.domains) + self.more
        none = f"None of {count} domains" if count > 1 else "The one domain"
        cannot = "can" if count > 1 else "can't"
        is_told = not self.best.resources and self.best.pods < self.best.required
        pods = f"; it could take {self.best.pods} of {self.best.required} pods" if is_told else ""
        best = f"The best is {self.best.domain}: {self.scarcest}{pods}" if self.scarcest else str(self.best)
        return f"{none} of level {self.level} {cannot} hold the pods together. {best}."


class TopologyUnsatisfied(msgspec.Struct, frozen=True):
    """No domain of the requested level can hold the pods that belong together."""

    topology: str
    level: str
    job: ObjectKey
    subgroup: str  #: empty for the job as a whole
    because: str = ""
    shortage: DomainsShort | None = None  #: a reason of its own
    scarcest: Scarcity | None = None  #: in all of the domain that was looked at
    code: str = POD_SCHEDULING_ERRORS

    def __str__(self) -> str:
        who = f"job <{self.job}>" + (f", subgroup {self.subgroup}" if self.subgroup else "")
        text = f"topology {self.topology}, requirement {self.level} couldn't be satisfied for {who}"
        return f"{text}: {self.because}" if self.because else text

    @property
    def summary(self) -> str:
        return f"All in all {self.scarcest}." if self.scarcest else ""


class TopologyUnusable(msgspec.Struct, frozen=True):
    """A constraint that names a missing topology or level."""

    text: str
    summary: str  #: which field of which object it is, and what would be right
    code: str = POD_SCHEDULING_ERRORS

    def __str__(self) -> str:
        return self.text

    def with_code(self) -> TopologyUnusable:
        """The same where there is no room for the pods either."""
        return msgspec.structs.replace(self, code=POD_SCHEDULING_ERRORS)

    @staticmethod
    def unknown(where: str, topology: str, known: Sequence[str]) -> TopologyUnusable:
        """`where`: the object and the field with the constraint; `known`: the topologies there are."""
        there_are = f"there are {', '.join(known)}" if known else "there are none"
        summary = f"{where}.topology: there is no Topology {topology!r}; {there_are}."
        return TopologyUnusable(f"Requested topology {topology} does not exist", summary)

    @staticmethod
    def without_level(where: str, topology: str, group: str) -> TopologyUnusable:
        who = f"sub-group {group}" if group else "workload"
        summary = f"{where}: requiredTopologyLevel or preferredTopologyLevel must be given, beside topology."
        text = f"topology constraint error: {who} names topology {topology}, and no level of it"
        return TopologyUnusable(text, summary, NO_CODE)

    @staticmethod
    def unknown_level(
        where: str, topology: str, group: str, *, kind: str, level: str, known: Sequence[str]
    ) -> TopologyUnusable:
        """`kind`: required or preferred; `known`: the levels that it may be, the widest first."""
        who = f"sub-group {group}" if group else "workload"
        may_be = f"it may be {', '.join(known)}" if known else "the topology has no levels"
        return TopologyUnusable(
            f"topology constraint error: {who} specified '{level}' as the {kind} topology constraint level, but the "
            f"topology tree '{topology}' does not contain a level with this name",
            f"{where}.{kind}TopologyLevel: {level!r} isn't a level of Topology {topology!r} that will do; {may_be}.",
            NO_CODE,
        )


class QueueUnusable(msgspec.Struct, frozen=True):
    """The job's queue doesn't exist or can't hold jobs."""

    text: str
    code: str = QUEUE_DOES_NOT_EXIST

    def __str__(self) -> str:
        return self.text


class AccessDenied(msgspec.Struct, frozen=True):
    """The job's queue or priority class isn't for its namespace."""

    group: ObjectKey
    why: str
    code: str = ACCESS_DENIED

    def __str__(self) -> str:
        return f"PodGroup {self.group} can't be scheduled: {self.why}"


class SpecUnusable(msgspec.Struct, frozen=True):
    """The pod group's spec is invalid."""

    group: ObjectKey
    problem: str
    code: str = INVALID_SPEC

    def __str__(self) -> str:
        return f"PodGroup {self.group} can't be scheduled: {self.problem}"


class LeftOutOfCycles(msgspec.Struct, frozen=True):
    """`decide` raises with the job, so the scheduler leaves it out."""

    error: str
    code: str = SCHEDULER_FAILED

    def __str__(self) -> str:
        return (
            f"The scheduler fails with this pod group and leaves it out until it changes, or for a while: {self.error}"
        )


class NotReady(msgspec.Struct, frozen=True):
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


class GatesClosed(msgspec.Struct, frozen=True):
    """All that is left of the job waits for its scheduling gates."""

    gated: int
    code: str = NO_CODE

    def __str__(self) -> str:
        return f"{self.gated} pods wait for their scheduling gates to be lifted"


class NotTried(msgspec.Struct, frozen=True):
    """The cycle tried only the first jobs of the queue."""

    queue: str
    depth: int
    code: str = NO_CODE

    def __str__(self) -> str:
        return (
            f"Only the first {self.depth} jobs of queue '{self.queue}' are tried in a cycle, and this isn't one of them"
        )


class SearchCutShort(msgspec.Struct, frozen=True):
    """The search for victims was cut short by its budget."""

    action: str
    begun: bool  #: whether there was anything left for this job
    code: str = NO_CODE

    def __str__(self) -> str:
        when = "before the search was complete" if self.begun else "before it was this job's turn"
        return f"The budget for finding jobs to evict (scenarioSearchBudgets) in {self.action} was used up {when}"


class DelayNotElapsed(msgspec.Struct, frozen=True):
    """The job's preemption delay isn't over."""

    delay: str
    ends: float  #: epoch seconds
    code: str = PREEMPTION_DELAY

    def __str__(self) -> str:
        return (
            f"Workload is within its preemption delay window ({self.delay}) and may not trigger evictions before "
            f"{format_time(self.ends)}"
        )


class MinRuntimeNotElapsed(msgspec.Struct, frozen=True):
    """Possible victims are protected by their queue's minimum run time."""

    ends: float  #: epoch seconds: when the first of them has
    code: str = NO_CODE

    def __str__(self) -> str:
        return (
            "Jobs that could make room for it are protected by the minimum run time of their queue, the first of them "
            f"until {format_time(self.ends)}"
        )


class EvictionRefused(msgspec.Struct, frozen=True):
    """Possible victims can't be evicted now."""

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
    | LeftOutOfCycles
    | OverCapacity
    | QueueUnusable
    | AccessDenied
    | SpecUnusable
    | NotReady
    | GatesClosed
    | NotTried
    | SearchCutShort
    | TopologyUnsatisfied
    | TopologyUnusable
)


def in_words(reasons: Sequence[JobReason]) -> str:
    """The whole message: the most important part first, where there is more to say than KAI's sentences do."""
    more_to_say = DomainsShort | TopologyUnsatisfied | TopologyUnusable
    summaries = [each.summary for each in reasons if isinstance(each, more_to_say)]
    return "\n".join([*filter(None, summaries), *map(str, reasons)])


def unknown_subgroup(subgroup: str, group: ObjectKey) -> str:
    """The message for a pod whose sub-group the pod group doesn't have."""
    return f'Pod references subgroup "{subgroup}", which does not exist in PodGroup {group}'
