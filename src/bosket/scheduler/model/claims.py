"""Claims: room that was made for a job by evicting others, and is kept for it until it starts.

The next cycles serve claims before anybody's turn, at the very places that were decided, so that what was freed for a
job isn't given to somebody else meanwhile, and nobody is evicted for a job that then can't start. Jobs that were moved
have a claim to their new places too, for the pods that come back. A claim ends when its job has started, is gone or
isn't what it was, when its place was taken in a later cycle by one with a better right, and `PATIENCE_SECONDS` after
its victims are gone in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions, Eviction, Operation, Pipeline
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.task import Task, TaskStatus

#: For this long after all victims are gone, a job that doesn't start keeps its claim.
PATIENCE_SECONDS = 30.0
#: Of pods that hold nothing any more, or don't let go of it.
GONE = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.STUCK_IN_RELEASING})


class Place(msgspec.Struct, frozen=True):
    """A pod and the node where there is room for it."""

    pod: ObjectKey
    uid: str
    node: str
    #: (resource, amount) that the pod holds; for pods that are to come, of which only this much is known
    request: tuple[tuple[str, float], ...] = ()
    share: GpuShare | None = None  #: and of GPUs that it shares
    gpu_groups: tuple[str, ...] = ()  #: these GPUs


class Claim(msgspec.Struct, frozen=True):
    """What a job was promised."""

    job: ObjectKey
    uid: str
    generation: int
    places: tuple[Place, ...]  #: of its pods; in a claim of one that was moved, of those that go
    victims: tuple[tuple[ObjectKey, str], ...] = ()  #: (pod, uid) of those who make room
    is_return: bool = False  #: whether the job was moved, and other pods of it come back

    @property
    def leaving(self) -> tuple[tuple[ObjectKey, str], ...]:
        """(pod, uid) of those who make room."""
        return tuple((place.pod, place.uid) for place in self.places) if self.is_return else self.victims


_Key = tuple[ObjectKey, bool]  #: job, and whether it was moved


class Claims:
    """All claims, the oldest first."""

    def __init__(self) -> None:
        self._claims: dict[_Key, Claim] = {}
        self._gone_since: dict[_Key, float] = {}
        self._view: tuple[Claim, ...] = ()

    def put(self, claim: Claim) -> None:
        key = (claim.job, claim.is_return)
        before = self._claims.get(key)
        if before is not None and before.uid == claim.uid:  # something more was promised, beside what it waits for
            victims = dict.fromkeys((*before.victims, *claim.victims))
            claim = msgspec.structs.replace(claim, victims=tuple(victims))
        self._claims[key] = claim
        self._gone_since.pop(key, None)
        self._view = tuple(self._claims.values())

    def clear(self) -> None:
        """Forgets all of them."""
        self._claims.clear()
        self._gone_since.clear()
        self._view = ()

    @property
    def known(self) -> tuple[Claim, ...]:
        return self._view

    def note(self, decisions: Decisions, resource_names: Sequence[str]) -> None:
        """What a cycle promises, and what it takes away from those who were promised something before."""
        ends = {task.key: operation for task, operation in decisions.outcome.items()}
        bound = {bind.job.key for bind in decisions.lasting_binds}
        # Another pod of the job may have been given the place: then that one was seen later.
        lost = {
            end.job.key
            for task, end in decisions.outcome.items()
            if isinstance(end, Eviction) and task.status == TaskStatus.PENDING
        }
        for key, claim in list(self._claims.items()):
            if claim.is_return:
                if claim.job in bound:
                    self._end(key)
            elif claim.job in lost or any(isinstance(ends.get(place.pod), Eviction) for place in claim.places):
                self._end(key)
            else:
                self._follow(key, [ends.get(place.pod) for place in claim.places])
        for claim in _claims_in(decisions, resource_names):
            self.put(claim)

    def _follow(self, key: _Key, ends: Sequence[Operation | None]) -> None:
        """Places may have moved."""
        claim = self._claims[key]
        places = tuple(
            msgspec.structs.replace(place, node=end.node) if isinstance(end, Pipeline) else place
            for place, end in zip(claim.places, ends, strict=True)
        )
        if places != claim.places:
            self._claims[key] = msgspec.structs.replace(claim, places=places)
            self._view = tuple(self._claims.values())

    def victim_stays(self, pod: ObjectKey) -> None:
        """The pod isn't evicted after all: those who count on its room must look again."""
        for key, claim in list(self._claims.items()):
            if any(victim == pod for victim, _ in claim.leaving):
                self._end(key)

    def standing(
        self, now: float, jobs: Mapping[ObjectKey, Job], find: Callable[[ObjectKey], Task | None]
    ) -> tuple[Claim, ...]:
        """Those that still hold; the same object while nothing changed. `find` gives a pod's task, if it is there."""
        for key, claim in list(self._claims.items()):
            job = jobs.get(claim.job)
            is_same = job is not None and _identity(job) == (claim.uid, claim.generation)
            if not is_same or (not claim.is_return and not _is_wanted(claim, find)):
                self._end(key)
            elif any(_is_there(pod, uid, find) for pod, uid in claim.leaving):
                self._gone_since.pop(key, None)
            elif now - self._gone_since.setdefault(key, now) >= PATIENCE_SECONDS:
                self._end(key)
        return self._view

    def _end(self, key: _Key) -> None:
        del self._claims[key]
        self._gone_since.pop(key, None)
        self._view = tuple(self._claims.values())


def _claims_in(decisions: Decisions, resource_names: Sequence[str]) -> Iterable[Claim]:
    places: dict[ObjectKey, list[Place]] = {}
    for operation in decisions.outcome.values():
        task = operation.task
        if isinstance(operation, Pipeline) and task.status == TaskStatus.PENDING:
            places.setdefault(operation.job.key, []).append(Place(task.key, task.pod.metadata.uid, operation.node))
    victims: dict[ObjectKey, list[tuple[ObjectKey, str]]] = {}
    preemptors = {each.preemptor.key: each.preemptor for each in decisions.evictions if each.preemptor is not None}
    moved: dict[ObjectKey, tuple[Job, list[Place]]] = {}
    for each in decisions.lasting_evictions:
        task = each.task
        if each.preemptor is not None:
            victims.setdefault(each.preemptor.key, []).append((task.key, task.pod.metadata.uid))
        if isinstance(end := decisions.outcome[task], Pipeline):
            request = tuple((resource_names[place], amount) for place, amount in task.pod_class.holds)
            _, kept = moved.setdefault(each.job.key, (each.job, []))
            uid, share = task.pod.metadata.uid, task.pod_class.share
            kept.append(Place(task.key, uid, end.node, request, share, end.gpu_groups))
    for key, preemptor in preemptors.items():
        if key in places:
            yield Claim(key, *_identity(preemptor), tuple(places[key]), tuple(victims.get(key, ())))
    for key, (job, kept) in moved.items():
        yield Claim(key, *_identity(job), tuple(kept), is_return=True)


def _identity(job: Job) -> tuple[str, int]:
    return job.group.metadata.uid, job.group.metadata.generation


def _is_wanted(claim: Claim, find: Callable[[ObjectKey], Task | None]) -> bool:
    """Whether all of its pods are there, and some have no node yet."""
    tasks = [find(place.pod) for place in claim.places]
    if not all(
        task is not None and task.pod.metadata.uid == place.uid for task, place in zip(tasks, claim.places, strict=True)
    ):
        return False
    return any(task is not None and task.status in (TaskStatus.PENDING, TaskStatus.BINDING) for task in tasks)


def _is_there(pod: ObjectKey, uid: str, find: Callable[[ObjectKey], Task | None]) -> bool:
    task = find(pod)
    return task is not None and task.pod.metadata.uid == uid and task.status not in GONE
