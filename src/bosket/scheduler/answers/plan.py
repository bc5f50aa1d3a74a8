"""What would happen: a cluster with changes, followed for some cycles beside the same cluster without them.

`bosket plan` makes a `Draft` of what is asked about and gets a `Plan`: who starts where, who waits and why, who is
evicted for whom, before and after. Every line of it is what `decide` decided; nothing here places a pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple

from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.answers.edits import Drained
from bosket.scheduler.answers.fragmentation import report
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.answers.trial import emptied, start_of
from bosket.scheduler.answers.virtual_cluster import VirtualCluster
from bosket.scheduler.answers.workload_name import workload_of
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import GPU, QueueAmounts
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, WAITING, TaskStatus

#: When a job starts: in the first cycle; when those have left that are evicted for it, or that the changes end; in a
#: later cycle.
When = Literal["now", "after-evictions", "after-deletions", "later"]
Verdict = Literal["never", "not-now", "waiting-for-termination"]

#: What a plan comes to, as an exit code.
STARTS, WAITS, NEVER, STARTS_BY_EVICTING = 0, 2, 3, 4
#: So many jobs are proved never to start, beside those that the question is about: each proof is a cycle.
MOST_PROOFS: Final = 20
#: Where nothing but time would change anything, so much of it is let pass, and so often in a row.
MOST_WAIT_SECONDS: Final = 3600.0
MOST_IDLE: Final = 5


class Place(NamedTuple):
    """Where a pod starts, with how many GPUs."""

    node: str
    gpus: float


@dataclass(frozen=True, slots=True)
class Start:
    """A job that starts."""

    job: ObjectKey
    pods: Mapping[str, Place]  #: by name
    when: When
    cycle: int  #: the first is 1
    seconds: float  #: of virtual time, after which it is decided
    anyway: bool = False  #: whether it would start without the changes, too

    @property
    def nodes(self) -> Mapping[str, str]:
        """Pod → node."""
        return {pod: place.node for pod, place in self.pods.items()}

    @property
    def gpus(self) -> float:
        """Of all of its pods that start."""
        return sum(place.gpus for place in self.pods.values())


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that doesn't start in the cycles that were followed."""

    job: ObjectKey
    verdict: Verdict
    sentence: str
    pods: int  #: that wait
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Evicted:
    """Pods of a job that are evicted together."""

    job: ObjectKey
    pods: tuple[str, ...]
    for_whom: str  #: the job that takes the room, or the drain; empty where it goes on its own account
    action: str
    cycle: int
    seconds: float  #: of virtual time, after which it is decided
    moves: Mapping[str, tuple[str, str]] = field(default_factory=dict)  #: pod → (from, to) of those that start anew
    lost_gpu_hours: float = 0.0
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """GPUs of the nodes."""

    gpus: float
    used: float
    fragmented: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen."""

    subjects: tuple[ObjectKey, ...]  #: the jobs of workloads that aren't submitted yet
    starts: tuple[Start, ...]
    waits: tuple[Wait, ...]
    evicts: tuple[Evicted, ...]
    fair_share: Mapping[str, tuple[QueueAmounts | None, QueueAmounts | None]]  #: by queue: before, after
    usage: tuple[Usage, Usage]
    #: by job: pod → node of those that have one, in the end
    placed: Mapping[ObjectKey, Mapping[str, str]]
    drained: tuple[Drained, ...]
    workloads: Mapping[ObjectKey, str]  #: what people call a job: "Job default/train"
    digest: str
    cycles: int  #: followed, the last of which changed something or was the last asked for
    decides: int

    @property
    def exit_code(self) -> int:
        """0 what is asked about starts at once, 4 only by evicting, 2 it waits, 3 it never starts.

        Where no workload is asked about: 2 where the changes make somebody wait who ran or would start, 4 where they
        cost somebody the place.
        """
        waiting = {each.job: each for each in self.waits}
        if self.subjects:
            verdicts = {waiting[job].verdict for job in self.subjects if job in waiting}
            if verdicts:
                return NEVER if "never" in verdicts else WAITS
            starts = {each.job: each for each in self.starts}
            if any(job not in starts or starts[job].when == "later" for job in self.subjects):
                evicted_for = {each.for_whom for each in self.evicts}
                return STARTS_BY_EVICTING if {str(job) for job in self.subjects} & evicted_for else WAITS
            return STARTS_BY_EVICTING if self._evicts_for_subjects else STARTS
        if any(not each.anyway for each in self.waits):
            return WAITS
        return STARTS_BY_EVICTING if any(not each.anyway for each in self.evicts) else STARTS

    @property
    def _evicts_for_subjects(self) -> bool:
        names = {str(job) for job in self.subjects}
        return any(each.for_whom in names for each in self.evicts)


def make_plan(
    cluster: Cluster,
    draft: Draft,
    *,
    subjects: Collection[ObjectKey] = (),
    workloads: Mapping[ObjectKey, str] | None = None,
    drained: Iterable[Drained] = (),
    cycles: int = 1,
) -> Plan:
    """Follows the cluster as it is, and with the draft's changes, for so many cycles at most."""
    before = _follow(VirtualCluster(cluster, {}), cycles)
    after = _follow(VirtualCluster(cluster, draft.changed, draft.gone), cycles, deletes=bool(draft.ending))
    drained = tuple(drained)
    starts = _marked_starts(before, after)
    waits = tuple(_waits(before, after, subjects))
    evicts = (*_drain_evictions(cluster, drained), *_marked_evictions(before, after))
    shares = {
        queue: (before.decisions.fair_share.get(queue), after.decisions.fair_share.get(queue))
        for queue in sorted({*before.decisions.fair_share, *after.decisions.fair_share})
    }
    return Plan(
        subjects=tuple(subjects),
        starts=starts,
        waits=waits,
        evicts=evicts,
        fair_share=shares,
        usage=(before.usage_at_first, after.usage_at_last),
        placed=_placed(after.end),
        drained=drained,
        workloads={
            **_workload_names(cluster.objects(PodGroup)),
            **_workload_names(draft.objects(PodGroup)),
            **(workloads or {}),
        },
        digest=cluster.digest(),
        cycles=after.cycles,
        decides=before.cycles + after.cycles,
    )


@dataclass
class _Course:
    """How a cluster went on."""

    starts: dict[ObjectKey, Start]
    evicts: list[Evicted]
    snapshot: Snapshot  #: of the last cycle
    decisions: Decisions  #: of the last cycle
    usage_at_first: Usage
    end: Snapshot  #: after the last cycle was carried out
    virtual: VirtualCluster  #: the same
    cycles: int

    @cached_property
    def cluster(self) -> Cluster:
        """As it is in the end."""
        return self.virtual.as_cluster()

    @property
    def usage_at_last(self) -> Usage:
        return _usage(self.end)


def _follow(cluster: VirtualCluster, cycles: int, *, deletes: bool = False) -> _Course:
    """`deletes`: whether the changes end pods, whose places others may wait for."""
    starts: dict[ObjectKey, Start] = {}
    evicts: list[Evicted] = []
    first, began = _usage(cluster.snapshot()), cluster.now
    number = idle = 0
    while True:
        number += 1
        snapshot, decisions = cluster.cycle()
        evictions = decisions.lasting_evictions
        seconds = cluster.now - began
        evicts += _evicted(evictions, number, seconds)
        served = {each.preemptor.key for each in evictions if each.preemptor is not None}
        _add_starts(starts, decisions, served, cycle=number, seconds=seconds, deletes=deletes)
        changed = cluster.carry_out(decisions)
        if number >= cycles:
            break
        if changed:
            idle = 0
            continue
        moment = min(decisions.look_again_at, cluster.next_return_at)
        if moment > cluster.now + MOST_WAIT_SECONDS or idle == MOST_IDLE:
            break
        idle = 0 if cluster.next_return_at <= moment else idle + 1
        cluster.wait_until(moment)
    return _Course(starts, evicts, snapshot, decisions, first, cluster.snapshot(), cluster, number)


def _add_starts(
    starts: dict[ObjectKey, Start],
    decisions: Decisions,
    served: Collection[ObjectKey],
    *,
    cycle: int,
    seconds: float,
    deletes: bool,
) -> None:
    """Jobs whose pods are bound in this cycle, or get a place that is freed for them."""
    found: dict[ObjectKey, dict[str, Place]] = {}
    pipelined: set[ObjectKey] = set()
    lasting = {bind.task for bind in decisions.lasting_binds}
    for task, operation in decisions.outcome.items():
        job = operation.job.key
        if task.status != TaskStatus.PENDING:
            continue
        if isinstance(operation, Pipeline) and (job in served or (deletes and cycle == 1)):
            pipelined.add(job)
        elif not isinstance(operation, Bind) or task not in lasting:
            continue
        found.setdefault(job, {})[task.key.name] = Place(operation.node, task.pod_class.charge[0])
    for job, pods in found.items():
        known = starts.get(job)
        when: When = "now" if cycle == 1 else "later"
        if job in pipelined:
            when = "after-evictions" if job in served else "after-deletions"
        if known is None:
            starts[job] = Start(job, pods, when, cycle, seconds)
        else:
            starts[job] = replace(known, pods={**known.pods, **pods})


def _evicted(evictions: Iterable[Eviction], cycle: int, seconds: float) -> list[Evicted]:
    groups: dict[tuple[ObjectKey, ObjectKey | None, str], list[Eviction]] = {}
    for each in evictions:
        preemptor = each.preemptor.key if each.preemptor is not None else None
        groups.setdefault((each.job.key, preemptor, each.action), []).append(each)
    return [
        Evicted(
            job,
            tuple(each.task.key.name for each in batch),
            str(preemptor) if preemptor is not None else "",
            action,
            cycle,
            seconds,
            {each.task.key.name: (each.node, each.moves_to) for each in batch if each.moves_to},
            sum(each.lost_gpu_hours for each in batch),
        )
        for (job, preemptor, action), batch in groups.items()
    ]


def _marked_starts(before: _Course, after: _Course) -> tuple[Start, ...]:
    return tuple(
        replace(each, anyway=each.job in before.starts)
        for each in sorted(after.starts.values(), key=lambda each: each.job)
    )


def _marked_evictions(before: _Course, after: _Course) -> list[Evicted]:
    known = {(each.job, frozenset(each.pods)) for each in before.evicts}
    return [replace(each, anyway=(each.job, frozenset(each.pods)) in known) for each in after.evicts]


def _drain_evictions(cluster: Cluster, drained: Iterable[Drained]) -> list[Evicted]:
    jobs = {task.key: job.key for job in cluster.snapshot().jobs.values() for task in job.tasks}
    found: list[Evicted] = []
    for each in drained:
        groups: dict[ObjectKey, list[str]] = {}
        for pod in each.evicted:
            groups.setdefault(jobs.get(pod.key, pod.key), []).append(pod.metadata.name)
        found += [Evicted(job, tuple(pods), f"drain of {each.what}", "drain", 0, 0.0) for job, pods in groups.items()]
    return found


def _waits(before: _Course, after: _Course, subjects: Collection[ObjectKey]) -> Iterable[Wait]:
    waited = {job.key for job, _ in _waiting(before)}
    proofs = 0
    found = sorted(_waiting(after), key=lambda each: (each[0].key not in subjects, each[0].key in waited, each[0].key))
    for job, sentence in found:
        is_pipelined = _pipelined(after.decisions, job)
        if is_pipelined and job.key in after.starts:
            continue
        verdict: Verdict = "not-now"
        if is_pipelined:
            verdict = "waiting-for-termination"
        elif job.key in subjects or proofs < MOST_PROOFS:
            proofs += job.key not in subjects
            alone = emptied(after.cluster, [after.end.jobs.get(job.key, job)])
            verdict = "not-now" if start_of(alone.decide(), job.key) is not None else "never"
        pods = sum(task.status in WAITING for task in job.tasks)
        yield Wait(job.key, verdict, sentence, pods, anyway=job.key in waited)


def _waiting(course: _Course) -> Iterable[tuple[Job, str]]:
    """Jobs of which nothing runs, and that got no place to bind to; with what is said about them."""
    sentences = Sentences(course.snapshot, course.decisions)
    bound = {bind.job.key for bind in course.decisions.lasting_binds}
    for job in course.snapshot.unsettled:
        has_pending = any(task.status in WAITING for task in job.tasks)
        if not has_pending or job.is_active or job.key in bound:
            continue
        answer = sentences.about(job.key)
        yield job, answer.sentence if answer is not None else "isn't tried in this cycle"


def _pipelined(decisions: Decisions, job: Job) -> bool:
    return any(isinstance(decisions.outcome.get(task), Pipeline) for task in job.tasks)


def _workload_names(groups: Iterable[KubeObject]) -> dict[ObjectKey, str]:
    found = {}
    for group in groups:
        assert isinstance(group, PodGroup)
        kind, name = workload_of(group)
        found[group.key] = f"{kind} {group.metadata.namespace}/{name}"
    return found


def _placed(snapshot: Snapshot) -> dict[ObjectKey, dict[str, str]]:
    found = {
        job.key: {task.key.name: task.node for task in job.tasks if task.status in ACTIVE_ALLOCATED}
        for job in snapshot.jobs.values()
    }
    return {job: nodes for job, nodes in found.items() if nodes}


def _usage(snapshot: Snapshot) -> Usage:
    table = snapshot.nodes
    total = float(table.allocatable[GPU].sum())
    used = total - float(table.idle[GPU].sum()) - float(table.releasing[GPU].sum())
    return Usage(total, used, report(snapshot).fragmented)
