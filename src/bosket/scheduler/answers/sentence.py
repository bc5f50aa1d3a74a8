"""Why a job waits, as one sentence with numbers and as a structured reason.

Made of a decided cycle alone: `explain` and `jobs` ask with the decisions of a `Cluster`, the status writer with those
of its last cycle. The same snapshot and decisions give the same sentence. It names moments, never a time that is left,
so that it doesn't change while nothing does, nor while victims are ending. What many jobs have in common is found out
once, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.answers.answer import (
    BINDING_FAILED,
    EVICTION_REFUSED,
    GATES_CLOSED,
    LOWER_IN_ORDER,
    MIN_RUNTIME,
    NOT_TRIED,
    QUEUE_UNUSABLE,
    SEARCH_CUT_SHORT,
    TERMINATING,
    TOPOLOGY_UNUSABLE,
    UNKNOWN_SUBGROUP,
    Answer,
    Reason,
    Tier,
    Told,
)
from bosket.scheduler.answers.demand import number
from bosket.scheduler.answers.free_room import FreeRoom
from bosket.scheduler.answers.line import Line
from bosket.scheduler.answers.shortage import Shortage
from bosket.scheduler.model.decisions import Decisions, Pipeline, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import (
    OVER_LIMIT,
    PREEMPTION_DELAY,
    AccessDenied,
    DelayNotElapsed,
    DomainsShort,
    EvictionRefused,
    GangShort,
    GatesClosed,
    JobReason,
    LeftOutOfCycles,
    MinRuntimeNotElapsed,
    NotReady,
    NotTried,
    OverCapacity,
    QueueUnusable,
    SearchCutShort,
    SpecUnusable,
    TopologyUnsatisfied,
    TopologyUnusable,
)
from bosket.scheduler.model.resource import QUEUE_RESOURCE_NAMES
from bosket.scheduler.model.snapshot import Snapshot

#: Of several reasons the first of these says why the job waits; the others follow from it, or are what it adds to.
_FIRST: Final[tuple[type[JobReason], ...]] = (
    LeftOutOfCycles,
    SpecUnusable,
    AccessDenied,
    QueueUnusable,
    NotReady,
    GatesClosed,
    TopologyUnusable,
    OverCapacity,
    MinRuntimeNotElapsed,
    EvictionRefused,
    DelayNotElapsed,
    SearchCutShort,
    NotTried,
    DomainsShort,
    TopologyUnsatisfied,
    GangShort,
)
#: Of what there is too little.
_SHORTAGES: Final[tuple[type[JobReason], ...]] = (DomainsShort, TopologyUnsatisfied, GangShort)
_WORDS: Final = dict(zip(QUEUE_RESOURCE_NAMES, ("gpu", "cpu", "memory"), strict=True))


class Sentences:
    """Answers for all jobs of one decided cycle."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self.snapshot, self.decisions = snapshot, decisions
        self.line = Line(snapshot, decisions)
        self.room = FreeRoom(snapshot, decisions)

    def of(self, waiting: Waiting) -> Answer | None:
        """Why a job waits that this cycle found waiting, or a search on about the same snapshot. None where there is
        nothing to say: all its pods have places."""
        has_place = self.decisions.has_a_place(waiting)  # by an action that came later than the reasons
        told = self._told(waiting.job, () if has_place else waiting.reasons)
        return told.answer(self._position(told, waiting.job)) if told is not None else None

    def about(self, key: ObjectKey) -> Answer | None:
        """The same by the job's key, also of one whose pods are to start where others end. None for one that doesn't
        wait."""
        for each in self.decisions.waiting:
            if each.job.key == key:
                return self.of(each)
        job = self.snapshot.jobs.get(key)
        told = self._without_reason(job) if job is not None else None
        return told.answer("") if told is not None else None

    def answers(self) -> dict[ObjectKey, Answer]:
        """Of all jobs that wait."""
        found = ((each.job.key, self.of(each)) for each in self.decisions.waiting)
        return {key: answer for key, answer in found if answer is not None}

    def _position(self, told: Told, job: Job) -> str:
        ahead = self.line.ahead_of(job)
        if ahead is None or (told.reason.code == LOWER_IN_ORDER and not ahead):
            return ""  # those that were served before it aren't ahead of it any longer
        return {0: "no job ahead", 1: "1 job ahead"}.get(ahead, f"{ahead} jobs ahead")

    def _told(self, job: Job, reasons: Iterable[JobReason]) -> Told | None:
        by_kind = {type(each): each for each in reversed(list(reasons))}
        found = next((by_kind[kind] for kind in _FIRST if kind in by_kind), None)
        if found is None:
            return self._without_reason(job)
        if (told := _about_itself(job, found)) is not None:
            return told
        lacks = Shortage(self.snapshot, self.decisions, self.room, job)
        if isinstance(found, OverCapacity):
            return _over_capacity(found, lacks)
        shortage = next((by_kind[kind] for kind in _SHORTAGES if kind in by_kind), None)
        match found:
            case MinRuntimeNotElapsed():
                until = f"jobs that could make room are protected by their minimum run time until {_at(found.ends)}"
                return _held_up(MIN_RUNTIME, "fairness", until, lacks, shortage)
            case EvictionRefused():
                refused = f"evicting pod {found.pod}, which could make room, is refused by {found.by}"
                return _held_up(EVICTION_REFUSED, "fairness", refused, lacks, shortage)
            case DelayNotElapsed():
                until = f"no pod is evicted for it before {_at(found.ends)} (its preemption delay is {found.delay})"
                return _held_up(PREEMPTION_DELAY, "fairness", until, lacks, shortage)
            case SearchCutShort():
                cut = f"the search for victims in {found.action} ended before it was complete"
                return _held_up(SEARCH_CUT_SHORT, "order", cut, lacks, shortage)
            case NotTried():
                cut = f"only the first {found.depth} jobs of queue {found.queue} are tried in a cycle"
                return _held_up(NOT_TRIED, "order", cut, lacks, shortage)
        return lacks.told(shortage)

    def _without_reason(self, job: Job) -> Told | None:
        """Of a job whose pods are promised places, or that isn't tried for a while."""
        outcome = self.decisions.outcome
        places = [each for task in job.tasks if isinstance(each := outcome.get(task), Pipeline)]
        if places:
            nodes = sorted({each.node for each in places})
            where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
            pods = "1 pod is" if len(places) == 1 else f"{len(places)} pods are"
            reason = Reason(TERMINATING, "nodes", "pods", need=float(len(places)), scope="node")
            return Told(reason, (f"{pods} to start on {where}, as soon as what ends there is gone",))
        if job.key in self.snapshot.backing_off:
            text = "the binding of one of its pods failed, it is tried again after a while"
            return Told(Reason(BINDING_FAILED, "nodes"), (text,))
        if job.orphan_tasks:
            task = job.orphan_tasks[0]
            text = f"pod {task.key} is of sub-group {task.subgroup!r}, which its pod group doesn't have"
            return Told(Reason(UNKNOWN_SUBGROUP, "spec"), (text,))
        return None


def _about_itself(job: Job, reason: JobReason) -> Told | None:
    """What lies in the job's own objects, or in what its queue is, and not in amounts; None for other reasons."""
    match reason:
        case LeftOutOfCycles():
            return Told(Reason(reason.code, "spec"), (f"the scheduler fails with it: {reason.error}",))
        case SpecUnusable():
            return Told(Reason(reason.code or UNKNOWN_SUBGROUP, "spec"), (f"can't be scheduled: {reason.problem}",))
        case AccessDenied():
            return Told(Reason(reason.code, "queue", scope=job.queue), (f"isn't allowed: {reason.why}",))
        case QueueUnusable():
            return Told(Reason(reason.code or QUEUE_UNUSABLE, "queue", scope=job.queue), (reason.text,))
        case NotReady():
            return _not_ready(reason)
        case GatesClosed():
            wait = "1 pod waits for its" if reason.gated == 1 else f"{reason.gated} pods wait for their"
            gates = Reason(GATES_CLOSED, "spec", "gates", need=float(reason.gated), have=0.0)
            return Told(gates, (f"{wait} scheduling gates to be lifted",))
        case TopologyUnusable():
            text = (reason.summary or reason.text).rstrip(".")
            return Told(Reason(reason.code or TOPOLOGY_UNUSABLE, "topology"), (text,))
    return None


def _not_ready(reason: NotReady) -> Told:
    of = f" of sub-group {reason.subgroup}" if reason.subgroup else ""
    need, there = float(reason.required), float(reason.existing - reason.gated)
    if reason.existing >= reason.required:
        gated = Reason(reason.code, "spec", "gates", need, there, scope=reason.subgroup)
        are = "pod is" if reason.existing == 1 else "pods are"
        text = f"waits for scheduling gates to be lifted: {reason.gated} of {reason.existing} {are} gated{of}"
        return Told(gated, (f"{text}, {reason.required} must be free",))
    exist = "1 exists" if reason.existing == 1 else f"{reason.existing} exist"
    also = f", {reason.gated} of them gated" if reason.gated else ""
    missing = Reason(reason.code, "spec", "pods", need, there, scope=reason.subgroup)
    return Told(missing, (f"waits for pods{of} that don't exist yet: {reason.required} are needed, {exist}{also}",))


def _over_capacity(reason: OverCapacity, lacks: Shortage) -> Told:
    """The limit of a queue, or for jobs that aren't preemptible its quota; also what nodes lack even when empty.

    For a job that no node can hold, a limit would be raised in vain: then the nodes are the reason.
    """
    need, held, most = (number(each) for each in (reason.requested, reason.allocated, reason.allowed))
    word, gb = _WORDS[reason.resource], ""
    what = f"{need} {reason.resource.removesuffix('s') if need == '1' else reason.resource}"
    if word == "memory":
        what, gb = f"{need} GB of memory", " GB"
    structured = Reason(
        reason.code, "queue", word, reason.requested, reason.allocated, reason.allowed, scope=reason.queue
    )
    if reason.code == OVER_LIMIT:
        needs, bound = f"needs {what}", f"{reason.queue} is limited to {most}{gb} and holds {held}{gb}"
    else:
        held_by = f"of which jobs that aren't preemptible hold {held}{gb}"
        needs, bound = f"needs {what} and isn't preemptible", f"{reason.queue} has a quota of {most}{gb}, {held_by}"
    if not lacks.lasts:
        return Told(structured, (needs, bound), in_line=True)
    never = lacks.told(None)
    if lacks.exceeds_nodes:
        return never
    return Told(structured, (never.clauses[0], bound, *never.clauses[1:]), in_line=True)


def _held_up(code: str, tier: Tier, clause: str, lacks: Shortage, shortage: JobReason | None) -> Told:
    """A job that has no room now, and what keeps room from being made for it; what never has room is told just that."""
    told = lacks.told(shortage)
    if lacks.lasts or not told.in_line:
        return told
    return Told(msgspec.structs.replace(told.reason, code=code, tier=tier), (*told.clauses, clause), in_line=True)


def _at(seconds: float) -> str:
    return format_time(seconds)
