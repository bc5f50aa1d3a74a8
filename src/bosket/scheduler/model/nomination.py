"""Nominations: nodes that are kept for a job after pods were evicted for it, until the job starts there.

The next cycles serve nominations before all other jobs, on exactly these nodes: resources that were freed for a job
aren't given to another one meanwhile, and nothing is evicted for a job that can't start. A job that was moved has a
nomination as well, for the pods that replace its evicted ones. A nomination ends when its job has started, is deleted
or changed; when a later cycle gives its nodes to a job with a better right; and at the latest `PATIENCE_SECONDS` after
its victims are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions, Eviction, Operation, Pipeline
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.task import Task, TaskStatus

#: For this long after all victims are gone, a job that doesn't start keeps its nomination.
PATIENCE_SECONDS = 30.0
#: Phases of pods that hold nothing any more, or whose resources can't be counted on.
GONE = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STUCK_IN_RELEASING})


class NominatedPod(msgspec.Struct, frozen=True):
    """A pod, and the node where resources are kept for it."""

    pod: ObjectKey
    uid: str
    node: str
    #: (resource name, amount) that the pod holds; in nominations of moved jobs, whose new pods don't exist yet
    request: tuple[tuple[str, float], ...] = ()
    share: GpuShare | None = None  #: the same of shared GPUs
    gpu_groups: tuple[str, ...] = ()  #: the shared GPUs that are kept


class Nomination(msgspec.Struct, frozen=True):
    """The nodes that are kept for the pods of one job. Its JSON is part of recordings and of the scheduler's memory."""

    job: ObjectKey
    uid: str
    generation: int
    #: pods that wait; where the job was moved, its evicted pods
    pods: tuple[NominatedPod, ...] = msgspec.field(name="places")
    victims: tuple[tuple[ObjectKey, str], ...] = ()  #: (pod, uid) of the pods that were evicted for the job
    is_return: bool = False  #: whether the job was moved, and new pods of it will come

    @property
    def leaving(self) -> tuple[tuple[ObjectKey, str], ...]:
        """(pod, uid) of the pods that must be gone before the nominated nodes are free."""
        return tuple((each.pod, each.uid) for each in self.pods) if self.is_return else self.victims


_Key = tuple[ObjectKey, bool]  #: job, and whether it was moved


class Nominations:
    """All nominations, the oldest first."""

    def __init__(self) -> None:
        self._nominations: dict[_Key, Nomination] = {}
        self._gone_since: dict[_Key, float] = {}
        self._view: tuple[Nomination, ...] = ()

    def put(self, nomination: Nomination) -> None:
        key = (nomination.job, nomination.is_return)
        before = self._nominations.get(key)
        if before is not None and before.uid == nomination.uid:  # more nodes; earlier victims count on
            victims = dict.fromkeys((*before.victims, *nomination.victims))
            nomination = msgspec.structs.replace(nomination, victims=tuple(victims))
        self._nominations[key] = nomination
        self._gone_since.pop(key, None)
        self._view = tuple(self._nominations.values())

    def clear(self) -> None:
        """Ends all of them."""
        self._nominations.clear()
        self._gone_since.clear()
        self._view = ()

    @property
    def known(self) -> tuple[Nomination, ...]:
        return self._view

    def record(self, decisions: Decisions, resource_names: Sequence[str]) -> None:
        """Adds the nominations of a cycle, and ends or moves earlier ones as the cycle decided."""
        ends = {task.key: operation for task, operation in decisions.outcome.items()}
        bound = {bind.job.key for bind in decisions.lasting_binds}
        # Another pod of the job may have been given the node: the lost pod then came later than the nomination.
        lost = {
            end.job.key
            for task, end in decisions.outcome.items()
            if isinstance(end, Eviction) and task.status == TaskStatus.PENDING
        }
        for key, nomination in list(self._nominations.items()):
            if nomination.is_return:
                if nomination.job in bound:
                    self._end(key)
            elif nomination.job in lost or any(isinstance(ends.get(each.pod), Eviction) for each in nomination.pods):
                self._end(key)
            else:
                self._follow(key, [ends.get(each.pod) for each in nomination.pods])
        for nomination in _nominations_in(decisions, resource_names):
            self.put(nomination)

    def _follow(self, key: _Key, ends: Sequence[Operation | None]) -> None:
        """Takes over the nodes to which a cycle moved nominated pods."""
        nomination = self._nominations[key]
        pods = tuple(
            msgspec.structs.replace(each, node=end.node) if isinstance(end, Pipeline) else each
            for each, end in zip(nomination.pods, ends, strict=True)
        )
        if pods != nomination.pods:
            self._nominations[key] = msgspec.structs.replace(nomination, pods=pods)
            self._view = tuple(self._nominations.values())

    def victim_stays(self, pod: ObjectKey) -> None:
        """Ends the nominations that wait for this pod to go: it isn't evicted after all."""
        for key, nomination in list(self._nominations.items()):
            if any(victim == pod for victim, _ in nomination.leaving):
                self._end(key)

    def current(
        self, now: float, jobs: Mapping[ObjectKey, Job], find: Callable[[ObjectKey], Task | None]
    ) -> tuple[Nomination, ...]:
        """Ends what is over and returns the rest; the same object while nothing changed. `find` returns a pod's task,
        or None when the pod is gone."""
        for key, nomination in list(self._nominations.items()):
            job = jobs.get(nomination.job)
            is_same = job is not None and _identity(job) == (nomination.uid, nomination.generation)
            if not is_same or (not nomination.is_return and not _is_wanted(nomination, find)):
                self._end(key)
            elif any(_is_there(pod, uid, find) for pod, uid in nomination.leaving):
                self._gone_since.pop(key, None)
            elif now - self._gone_since.setdefault(key, now) >= PATIENCE_SECONDS:
                self._end(key)
        return self._view

    def _end(self, key: _Key) -> None:
        del self._nominations[key]
        self._gone_since.pop(key, None)
        self._view = tuple(self._nominations.values())


def _nominations_in(decisions: Decisions, resource_names: Sequence[str]) -> Iterable[Nomination]:
    """New nominations of a cycle: for preemptors, then for jobs that were moved."""
    pods: dict[ObjectKey, list[NominatedPod]] = {}
    for operation in decisions.outcome.values():
        task = operation.task
        if isinstance(operation, Pipeline) and task.status == TaskStatus.PENDING:
            pod = NominatedPod(task.key, task.pod.metadata.uid, operation.node)
            pods.setdefault(operation.job.key, []).append(pod)
    victims: dict[ObjectKey, list[tuple[ObjectKey, str]]] = {}
    preemptors = {each.preemptor.key: each.preemptor for each in decisions.evictions if each.preemptor is not None}
    moved: dict[ObjectKey, tuple[Job, list[NominatedPod]]] = {}
    for each in decisions.lasting_evictions:
        task = each.task
        if each.preemptor is not None:
            victims.setdefault(each.preemptor.key, []).append((task.key, task.pod.metadata.uid))
        if isinstance(end := decisions.outcome[task], Pipeline):
            request = tuple((resource_names[index], amount) for index, amount in task.pod_class.holds)
            _, kept = moved.setdefault(each.job.key, (each.job, []))
            uid, share = task.pod.metadata.uid, task.pod_class.share
            kept.append(NominatedPod(task.key, uid, end.node, request, share, end.gpu_groups))
    for key, preemptor in preemptors.items():
        if key in pods:
            yield Nomination(key, *_identity(preemptor), tuple(pods[key]), tuple(victims.get(key, ())))
    for key, (job, kept) in moved.items():
        yield Nomination(key, *_identity(job), tuple(kept), is_return=True)


def _identity(job: Job) -> tuple[str, int]:
    return job.group.metadata.uid, job.group.metadata.generation


def _is_wanted(nomination: Nomination, find: Callable[[ObjectKey], Task | None]) -> bool:
    """Whether all nominated pods exist, and some have no node yet."""
    tasks = [find(each.pod) for each in nomination.pods]
    if not all(
        task is not None and task.pod.metadata.uid == each.uid
        for task, each in zip(tasks, nomination.pods, strict=True)
    ):
        return False
    return any(task is not None and task.status in (TaskStatus.PENDING, TaskStatus.BINDING) for task in tasks)


def _is_there(pod: ObjectKey, uid: str, find: Callable[[ObjectKey], Task | None]) -> bool:
    task = find(pod)
    return task is not None and task.pod.metadata.uid == uid and task.status not in GONE
