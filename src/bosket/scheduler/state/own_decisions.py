"""OwnDecisions: what the scheduler decided and the API server doesn't show yet, or never will.

A bind request, an eviction or an annotation counts from the moment it is decided: the next cycle comes some
milliseconds later and would decide it a second time. The writers in `io` report here what the API server refused.
Nominations and preemption history, which bind later cycles, are kept here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from bosket.api.kai import BindRequest, PodGroup
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.model.cause import Recalled
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.nomination import GONE, Nomination, Nominations
from bosket.scheduler.model.reservation import Reservation, still_valid
from bosket.scheduler.model.snapshot import PreemptedBy, Snapshot
from bosket.scheduler.model.task import Task, TaskStatus
from bosket.scheduler.state.handlers import Journal
from bosket.scheduler.state.invalidation import Dirty
from bosket.scheduler.state.jobs import Jobs
from bosket.scheduler.state.own.bind_requests import pod_of
from bosket.scheduler.state.own.memory import Commitments, KeptEviction, KeptJob, Memory
from bosket.scheduler.state.own.notes import Annotations
from bosket.scheduler.state.own.preemption_history import PreemptionHistory
from bosket.scheduler.state.tasks import Tasks

#: An eviction that was decided longer ago and not carried out is decided again.
RESUME_SECONDS: Final = 120.0


class OwnDecisions:
    """Called by the scheduler's writers, and when the memory of another process is restored."""

    def __init__(
        self, tasks: Tasks, jobs: Jobs, preemptions: PreemptionHistory, dirty: Dirty, journal: Journal | None = None
    ) -> None:
        self._note = journal.note if journal is not None else _note_nothing
        self._tasks, self._jobs, self._dirty = tasks, jobs, dirty
        self._nominations, self._preemptions = Nominations(), preemptions
        self._reservations: tuple[Reservation, ...] = ()

    # Binds

    def assume_bind_request(self, request: BindRequest) -> None:
        """Counts a decided request before it is written."""
        self._tasks.requests.assume(request)
        self._note(BindRequest, request.key)
        self._tasks.renew(pod_of(request))

    def withdraw_bind_request(self, key: ObjectKey) -> None:
        """The request could not be written: its pod is pending again."""
        self._tasks.renew(self._tasks.requests.withdraw(key))
        self._note(BindRequest, key)

    @property
    def binds_under_way(self) -> int:
        """The number of bind requests that the binder has still to carry out, written or not."""
        return len(self._tasks.requests.under_way)

    def back_off(self, pod: ObjectKey, uid: str, now: float) -> None:
        """The pod's bind failed: its job backs off."""
        if pod in self._tasks.pods:
            self._tasks.backoffs.add(pod, uid, now)
            self._dirty.other = True

    def pods_backing_off(self, now: float) -> frozenset[ObjectKey]:
        """Pods whose bind failed a short while ago."""
        return self._tasks.backoffs.waiting(now)

    # Evictions

    def assume_eviction(self, pod: ObjectKey, uid: str, now: float, action: str = "", text: str = "") -> None:
        """Counts a decided eviction: the pod is terminating from now on. The next process learns from `action` and
        `text` what was decided, and why."""
        self._tasks.evictions.assume(pod, uid, now, action, text)
        self._tasks.renew(pod)

    def withdraw_eviction(self, pod: ObjectKey) -> None:
        """The pod isn't evicted after all: it counts as running again."""
        if self._tasks.evictions.withdraw(pod):
            self._nominations.victim_stays(pod)
            self._tasks.renew(pod)

    def refuse_eviction(self, pod: ObjectKey, uid: str, now: float, by: str) -> None:
        """The pod can't be evicted now: it backs off, so that searches choose other victims."""
        if pod in self._tasks.pods:
            self._tasks.evictions.refuse(pod, uid, now, by)
        self.withdraw_eviction(pod)
        self._dirty.other = True

    def evictions_under_way(self) -> tuple[ObjectKey, ...]:
        """Pods whose eviction isn't observed yet, in order."""
        return self._tasks.evictions.going()

    def guard_of(self, pod: ObjectKey) -> ObjectKey | None:
        """The disruption budget that guards the pod."""
        return self._tasks.evictions.budget_of(pod)

    # Annotations of pod groups

    def write_note(self, group: PodGroup, annotation: str, value: str | None) -> None:
        """Counts an annotation that is about to be written, or taken away."""
        self._jobs.notes.write(group, annotation, value)
        self._note(PodGroup, group.key)
        self._dirty.jobs.add(group.key)

    def withdraw_note(self, group: ObjectKey, annotation: str) -> None:
        """The annotation could not be written."""
        if self._jobs.notes.forget(group, annotation):
            self._dirty.jobs.add(group)
            self._note(PodGroup, group)

    def notes(self) -> Mapping[ObjectKey, tuple[str, Annotations]]:
        """Annotations that count and aren't observed yet: by group, with its uid."""
        return self._jobs.notes.all()

    # What binds the next cycles

    def remember(self, decisions: Decisions, now: float, resource_names: Sequence[str], *, usage_based: bool) -> None:
        """Remembers nominations, reservations and preemptions of a cycle. `usage_based`: whether fair shares depend on
        past usage."""
        if decisions.reservations is not None and decisions.reservations != self._reservations:
            self._reservations = decisions.reservations
        self._nominations.record(decisions, resource_names)
        self._preemptions.record(decisions, now, usage_based=usage_based)

    def nominations(self, now: float) -> tuple[Nomination, ...]:
        """Room that was made for jobs, as far as they still want it; the same object while nothing changed."""
        return self._nominations.current(now, self._jobs.known, self._tasks.get)

    def reservations(self) -> tuple[Reservation, ...]:
        """Nodes that are held for jobs that still wait; the same object while nothing changed."""
        self._reservations = still_valid(self._reservations, self._jobs.known)
        return self._reservations

    def hold(self, reservations: tuple[Reservation, ...]) -> None:
        """Holds these nodes, and no others."""
        self._reservations = reservations

    def preempted_by(self, now: float) -> PreemptedBy:
        """Job → jobs that preempted it in recent cycles; the same object while nothing changed."""
        return self._preemptions.preempted_by(now)

    def passed_over(self, now: float) -> frozenset[ObjectKey]:
        """Jobs that were passed over in recent cycles; the same object while nothing changed."""
        return self._preemptions.passed_over(now)

    def commitments(self, now: float) -> Commitments:
        """What earlier cycles bind the next one to, for a recording."""
        preempted_by: dict[ObjectKey, list[ObjectKey]] = {}
        for each in self._preemptions.entries(now):
            preempted_by.setdefault(each.victim, []).append(each.preemptor)
        return Commitments(
            evicted=self._tasks.evictions.going(),
            refused=tuple(sorted(self._tasks.evictions.refused(now).items())),
            nominations=self._nominations.known,
            preempted_by=tuple((victim, tuple(preemptors)) for victim, preemptors in preempted_by.items()),
            reservations=self._reservations,
        )

    def commit(self, commitments: Commitments, now: float) -> None:
        """Restores the commitments of a recording."""
        pods = self._tasks.pods
        for pod in commitments.evicted:
            if pod in pods:
                self.assume_eviction(pod, pods[pod].metadata.uid, now)
        for pod, by in commitments.refused:
            if pod in pods:
                self._tasks.evictions.refuse(pod, pods[pod].metadata.uid, now, by)
        for nomination in commitments.nominations:
            self._nominations.put(nomination)
        self._reservations = commitments.reservations
        self._preemptions.put(commitments.preempted_by, now)

    # Memory for the next process

    def memory(self, now: float, situation: Callable[[], str]) -> Memory:
        """The present memory. `situation` returns a digest; called only when an entry depends on it."""
        preemptions, rounds = self._preemptions.entries(now), self._preemptions.rounds(now)
        named = {key for each in preemptions for key in (each.victim, each.preemptor)} | rounds.keys()
        groups = [(key, self._jobs.groups[key].metadata) for key in sorted(named) if key in self._jobs.groups]
        return Memory(
            nominations=self._nominations.known,
            reservations=self._reservations,
            evictions=self._tasks.evictions.entries(),
            refusals=self._tasks.evictions.refusals.entries(),
            backoffs=self._tasks.backoffs.entries(),
            jobs=tuple(KeptJob(key, meta.uid, meta.generation, *rounds.get(key, ())) for key, meta in groups),
            preemptions=preemptions,
            situation=situation() if preemptions else "",
        )

    def restore(self, memory: Memory, now: float, situation: Callable[[], str]) -> None:
        """Replaces own decisions by a memory, as far as its objects still exist.

        Evictions of the memory don't count yet: `unfinished` says which of them are to be carried out.
        """
        self._forget_evictions()
        self._nominations.clear()
        for nomination in memory.nominations:
            self._nominations.put(nomination)
        self._reservations = memory.reservations
        groups, pods = self._jobs.groups, self._tasks.pods
        same = {
            each.job: each
            for each in memory.jobs
            if each.job in groups
            and (each.uid, each.generation) == (groups[each.job].metadata.uid, groups[each.job].metadata.generation)
        }
        counts = bool(memory.preemptions) and memory.situation == situation()
        self._preemptions.restore(
            [
                each
                for each in (memory.preemptions if counts else ())
                if each.until > now and each.victim in same and each.preemptor in same
            ],
            {key: (each.rounds, each.last_evicted, each.came_back) for key, each in same.items()},
        )
        for backoffs, kept in (
            (self._tasks.evictions.refusals, memory.refusals),
            (self._tasks.backoffs, memory.backoffs),
        ):
            backoffs.restore(each for each in kept if each.pod in pods and pods[each.pod].metadata.uid == each.uid)
        self._dirty.other = True

    def unfinished(self, memory: Memory, snapshot: Snapshot) -> tuple[Eviction, ...]:
        """Evictions of the memory that are to be carried out now: those that free the nodes of a current nomination.

        `snapshot` was taken after `restore`. Other evictions are decided anew where they are still right. A nomination
        ends when one of its victims stays, and its other victims stay too.
        """
        kept = {(each.pod, each.uid): each for each in memory.evictions if snapshot.now - each.since < RESUME_SECONDS}
        jobs, leaving = snapshot.jobs, dict[ObjectKey, tuple[Task, Job, KeptEviction]]()
        for task in self._staying(snapshot.nominations):
            eviction, job = kept.get((task.key, task.uid)), jobs.get(task.group) if task.group else None
            if eviction is None or job is None:
                self._nominations.victim_stays(task.key)
            else:
                leaving[task.key] = (task, job, eviction)
        found: dict[ObjectKey, Eviction] = {}
        for nomination in self._nominations.known:
            for pod, _ in () if nomination.is_return else nomination.victims:
                if pod in leaving:
                    task, job, eviction = leaving[pod]
                    cause = Recalled(eviction.text)
                    found[pod] = Eviction(task, job, task.node, eviction.action, jobs[nomination.job], cause)
        for pod in leaving.keys() - found.keys():  # nominations of moved jobs whose preemptor no longer waits
            self._nominations.victim_stays(pod)
        return tuple(found[pod] for pod in sorted(found))

    def _staying(self, nominations: Iterable[Nomination]) -> Iterator[Task]:
        """Victims of nominations that are not terminating, as far as the API server shows."""
        for pod, uid in {each for nomination in nominations for each in nomination.leaving}:
            task = self._tasks.get(pod)
            if task is not None and task.uid == uid and task.status not in (*GONE, TaskStatus.RELEASING):
                yield task

    def _forget_evictions(self) -> None:
        for pod in self._tasks.evictions.going():
            self._tasks.evictions.withdraw(pod)
            self._tasks.renew(pod)


def _note_nothing(kind: type[KubeObject], key: ObjectKey) -> None:
    """In place of a journal: nobody reads it."""
