"""Proposals: findings of a search for victims on an earlier snapshot, to be checked on a newer one.

A search may take seconds, and pods are placed meanwhile. `split` finds what can be applied as it is, because its jobs,
nodes and queues are unchanged. The rest becomes `Proposal`s: `decide` checks whether the same victims still make room
for the job, by the same rules, without searching for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions, Eviction, Operation, Pipeline
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task, TaskStatus


@dataclass(frozen=True, slots=True)
class Proposal:
    """A job and the victims that would make room for it."""

    action: str  #: that found it
    job: ObjectKey
    uid: str  #: of the job's pod group
    #: (victim's pod group, (pod, uid) of those that go), in the order in which they were found
    victims: tuple[tuple[ObjectKey, tuple[tuple[ObjectKey, str], ...]], ...]

    @property
    def evicted(self) -> int:
        """The number of pods that would be evicted."""
        return sum(len(pods) for _, pods in self.victims)


@dataclass(frozen=True, slots=True)
class Split:
    """A search's decisions, divided by whether they can be applied as they are."""

    current: Decisions  #: the part that can be applied: evictions with the placements that they are for, and reports
    outdated: tuple[Proposal, ...]  #: findings whose jobs, nodes or queues changed


def split(decisions: Decisions, searched: Snapshot, newest: Snapshot) -> Split:
    """Divides the decisions made on `searched` by what changed until `newest`.

    Only evictions for a preemptor are kept, with the placements that they are for: placing, and evicting stale gangs,
    is done on newer snapshots. Reports on waiting jobs are kept for jobs whose pending tasks did not change.
    """
    findings = list(_findings(decisions))
    unchanged = _Unchanged(searched, newest)
    current = [each for each in findings if unchanged.all_of(each)]
    outdated = [each.proposal() for each in findings if each not in current]
    served = {each.preemptor.key for each in findings}
    reports = tuple(
        each
        for each in decisions.waiting
        if each.job.key not in served and not decisions.has_a_place(each) and unchanged.is_waiting(each.job)
    )
    kept = replace(
        decisions,
        operations=tuple(operation for each in current for operation in each.operations),
        waiting=reports,
        placed=(),
        settled=(),
        started=(),
        stale=(),
        recovered=(),
        reservations=None,  # those of newer snapshots count
    )
    return Split(kept, tuple(outdated))


@dataclass(slots=True, eq=False)
class _Finding:
    """One preemptor's victims and placements."""

    action: str
    preemptor: Job
    operations: list[Operation]

    def evictions(self) -> Iterator[Eviction]:
        return (each for each in self.operations if isinstance(each, Eviction))

    def proposal(self) -> Proposal:
        victims: dict[ObjectKey, list[tuple[ObjectKey, str]]] = {}
        for each in self.evictions():
            victims.setdefault(each.job.key, []).append((each.task.key, each.task.uid))
        return Proposal(
            self.action,
            self.preemptor.key,
            self.preemptor.group.metadata.uid,
            tuple((key, tuple(pods)) for key, pods in victims.items()),
        )


def _findings(decisions: Decisions) -> Iterator[_Finding]:
    """The lasting evictions for a preemptor, with the placements that they are for."""
    found: dict[ObjectKey, _Finding] = {}
    moved: dict[Task, _Finding] = {}
    for eviction in decisions.lasting_evictions:
        preemptor = eviction.preemptor
        if preemptor is not None:
            finding = found.setdefault(preemptor.key, _Finding(eviction.action, preemptor, []))
            finding.operations.append(eviction)
            moved[eviction.task] = finding
    for task, end in decisions.outcome.items():
        if isinstance(end, Pipeline):
            whose = moved.get(task) or found.get(end.job.key)
            if whose is not None:
                whose.operations.append(end)
    # A job that lost its place to a later job in the same cycle isn't served.
    yield from (
        each
        for each in found.values()
        if any(isinstance(op, Pipeline) and op.job.key == each.preemptor.key for op in each.operations)
    )


class _Unchanged:
    """What is unchanged between two snapshots."""

    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self._before, self._after = before, after
        self._same_rules = before.queues is after.queues and before.nodes.static_version == after.nodes.static_version
        self._jobs: dict[ObjectKey, bool] = {}

    def all_of(self, finding: _Finding) -> bool:
        """Whether the jobs, the nodes where there is to be room, and what the jobs' queues hold, are as they were.

        Changes in other queues are ignored: they affect only the sums of ancestor queues, and slightly outdated sums
        are acceptable.
        """
        if self._before is self._after:
            return True
        if not self._same_rules:
            return False
        jobs = {finding.preemptor.key: finding.preemptor, **{each.job.key: each.job for each in finding.operations}}
        if not all(map(self._is_same_job, jobs.values())):
            return False
        nodes = {each.node for each in finding.operations}
        before, after = self._before.residents, self._after.residents
        if not all(_stand_alike(before.get(node, ()), after.get(node, ())) for node in nodes):
            return False
        return all(self._holds_as_before(job.queue) for job in jobs.values())

    def is_waiting(self, job: Job) -> bool:
        """Whether the job's pending tasks are unchanged."""
        return self._before is self._after or self._is_same_job(job)

    def _holds_as_before(self, queue: str) -> bool:
        before, after = self._before.use.get(queue), self._after.use.get(queue)
        if before is after:
            return True
        if before is None or after is None:
            return False
        return (before.allocated, before.non_preemptible) == (after.allocated, after.non_preemptible)

    def _is_same_job(self, job: Job) -> bool:
        known = self._jobs.get(job.key)
        if known is None:
            after = self._after.jobs.get(job.key)
            known = self._jobs[job.key] = after is job or (after is not None and _is_alike(job, after))
        return known


def _is_alike(before: Job, after: Job) -> bool:
    """Whether two versions of a job are equal in everything that a decision depends on; a status write changes
    nothing."""
    if (before.group.metadata.uid, before.group.spec) != (after.group.metadata.uid, after.group.spec):
        return False
    if (before.queue, before.priority, before.preemptible) != (after.queue, after.priority, after.preemptible):
        return False
    return _stand_alike(tuple(before.tasks), tuple(after.tasks))


def _stand_alike(before: tuple[Task, ...], after: tuple[Task, ...]) -> bool:
    """Whether two lists of tasks are equal in node and status. The watch shows a pod again whenever its status is
    written."""
    if before is after:
        return True
    return len(before) == len(after) and set(map(_stand, before)) == set(map(_stand, after))


def _stand(task: Task) -> tuple[object, ...]:
    """How a task stands, as far as decisions go by it: one that is bound and starts holds its node as before."""
    status = TaskStatus.RUNNING if task.status in _ON_NODE else task.status
    return task.key, task.uid, status, task.node, task.pod_class.index


_ON_NODE = frozenset({TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING})


def is_unchanged(task: Task, find: Callable[[ObjectKey], Task | None]) -> bool:
    """Whether the task is unchanged since the decision; `find` returns a pod's present task."""
    found = find(task.key)
    return found is task or (found is not None and _stand(found) == _stand(task))


def current_part(decisions: Decisions, find: Callable[[ObjectKey], Task | None]) -> tuple[Decisions, int]:
    """The decisions without those about tasks that changed since the snapshot, and the number of jobs concerned.

    A job with one changed task is dropped as a whole, so that no gang starts in part. So is everything that was decided
    for a job one of whose victims changed, so that no pod is evicted in vain.
    """
    outdated: set[ObjectKey] = set()
    for each in decisions.operations:
        if not is_unchanged(each.task, find):
            outdated.add(each.job.key)
    if not outdated:
        return decisions, 0
    preemptors = {each.preemptor.key for each in decisions.evictions if each.preemptor and each.job.key in outdated}
    outdated |= preemptors
    kept = tuple(
        each
        for each in decisions.operations
        if each.job.key not in outdated
        and not (isinstance(each, Eviction) and each.preemptor is not None and each.preemptor.key in outdated)
    )
    return replace(decisions, operations=kept), len(outdated)


Proposals = Mapping[str, tuple[Proposal, ...]]  #: by action


def by_action(proposals: tuple[Proposal, ...]) -> Proposals:
    """Proposals for `decide`, by action."""
    result: dict[str, tuple[Proposal, ...]] = {}
    for each in proposals:
        result[each.action] = (*result.get(each.action, ()), each)
    return result
