"""Quarantine: cycles go on although `decide` raises: culprits are left out by name, and the rest is scheduled.

The loop decides through `Quarantine.decide`, searches through `Quarantine.search`. After an exception `investigate`
finds the culprits (`culprits`), and the loop decides again at once. What is left out is tried again when it changed or
the configuration did, and otherwise with back-off. A second failure of the same object costs a few trials instead of
another search, even if it was scheduled in between.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bosket.api.object import KubeObject, ObjectKey
from bosket.runtime.clock import LoopClock
from bosket.runtime.worker_thread import WorkerThread
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.faults.culprits import (
    NODE,
    POD_GROUP,
    QUEUE,
    Suspect,
    failure_text,
    find_culprits,
    without_suspects,
)
from bosket.scheduler.model.decisions import Decisions, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import LeftOutOfCycles
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, TaskStatus

_log = logging.getLogger(__name__)

#: Runs `decide` on a snapshot and a configuration, in a thread or on the loop.
Compute = Callable[[Snapshot, Configuration], Awaitable[Decisions]]

#: The first and the longest back-off of an offender that doesn't change.
FIRST_SECONDS: Final = 60.0
MOST_SECONDS: Final = 3600.0
#: The shortest interval between trials of an offender that changes all the time.
CHANGED_SECONDS: Final = 5.0
#: The time limit of a search; then the candidates that remain are left out together.
SEARCH_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Offender:
    """Something that is left out."""

    suspect: Suspect
    error: str
    looks: object  #: its content when `decide` raised; a changed object is tried again
    failures: int
    failed_at: float

    @property
    def due_at(self) -> float:
        """When an unchanged offender is tried again."""
        return self.failed_at + min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.failures - 1, 20))

    def next_trial_at(self, looks: object) -> float:
        """When it is tried again, as it looks now."""
        return self.due_at if looks == self.looks else self.failed_at + CHANGED_SECONDS

    @property
    def text(self) -> str:
        """The message for people."""
        return f"{self.suspect} is left out of scheduling, because the scheduler fails with it: {self.error}"


class Quarantine:
    """What is left out of the cycles of one scheduler, and why."""

    def __init__(
        self,
        reported: Callable[[Offender, KubeObject | None], None] = lambda *_: None,
        rest: Callable[[float], Awaitable[None]] = lambda spent: asyncio.sleep(2 * spent),
        worker: WorkerThread | None = None,
    ) -> None:
        """`reported` is called for each offender that is newly left out, with its object where there is one; `rest`
        waits after a trial that took so many seconds; trials run on the `worker`, without one on the loop."""
        self._reported, self._rest = reported, rest
        self._worker = worker or WorkerThread("trials", LoopClock())
        self._offenders: dict[Suspect, Offender] = {}
        # Those that are scheduled again, and since when: what fails now and then keeps its count.
        self._released: dict[Suspect, tuple[Offender, float]] = {}
        self._try_all = False
        self._on_trial: frozenset[Suspect] = frozenset()
        # A search costs as much as many cycles: after one without result there is a pause.
        self._vain_searches, self._no_search_before = 0, 0.0

    @property
    def offenders(self) -> tuple[Offender, ...]:
        return tuple(self._offenders.values())

    async def decide(
        self, snapshot: Snapshot, configuration: Configuration, compute: Compute
    ) -> tuple[Snapshot, Decisions]:
        """Decides by `compute` without what is left out; gives the snapshot that was decided on, too. Raises what
        `compute` does."""
        if not self._offenders:
            decisions = await compute(snapshot, configuration)
            self._search_again()
            return snapshot, decisions
        looks = {each: looks_of(snapshot, configuration, each) for each in self._offenders}
        self._offenders = {each: known for each, known in self._offenders.items() if looks[each] is not None}
        self._on_trial = frozenset(
            each
            for each, known in self._offenders.items()
            if self._try_all or snapshot.now >= known.next_trial_at(looks[each])
        )
        self._try_all = False
        out = {each: known for each, known in self._offenders.items() if each not in self._on_trial}
        part, known_part = _without(snapshot, configuration, out)
        decisions = await compute(part, known_part)
        self._search_again()
        self._release(self._on_trial, snapshot.now)
        self._on_trial = frozenset()
        return part, self._with_notices(snapshot, decisions, looks)

    async def search(self, snapshot: Snapshot, configuration: Configuration, compute: Compute) -> Decisions:
        """Decides by `compute` without what is left out, and tries none of it: that is for the cycles that place."""
        part, known_part = _without(snapshot, configuration, self._offenders)
        return await compute(part, known_part)

    def reconfigure(self) -> None:
        """Another configuration is in force: what failed by the one before may not fail by this one."""
        self._try_all = True
        self._search_again()

    async def investigate(
        self, snapshot: Snapshot, configuration: Configuration, error: Exception, *, searching: bool = True
    ) -> bool:
        """Finds out what `decide` raised with, so that it is left out from now on. False when nothing helps.

        `searching`: whether it raised where victims are searched for, too.
        """
        on_trial, self._on_trial = self._on_trial, frozenset()
        before, search = self._offenders, _Search(self._rest, self._worker, searching=searching)
        released = self._released_lately(snapshot, configuration)
        counts = {each: known.failures for each, known in (*released.items(), *before.items())}
        found: list[Suspect] | None = []
        if on_trial or released:
            others = {each: offender for each, offender in before.items() if each not in on_trial}
            found = await search.run(*_without(snapshot, configuration, others), on_trial.union(released))
            if found:
                # the next failure was without them, so they are not the cause
                self._release(on_trial.difference(found), snapshot.now)
        if not found:
            if snapshot.now < self._no_search_before:
                return False
            # Whatever was left out before is suspected as anything else: of two that only fail together, it may have
            # been the wrong one.
            found = await search.run(snapshot, configuration, None)
            if found is not None:
                self._release([each for each in before if each not in found], snapshot.now)
        if found is None:
            self._vain_searches += 1
            self._no_search_before = snapshot.now + min(MOST_SECONDS, 10.0 * 2.0 ** min(self._vain_searches, 10))
            return False
        self._search_again()
        for each in found:
            self._released.pop(each, None)
            looks, failures = looks_of(snapshot, configuration, each), counts.get(each, 0) + 1
            offender = Offender(each, failure_text(error), looks, failures, snapshot.now)
            self._offenders[each] = offender
            _log.error("%s; tried again in %.0f s", offender.text, offender.due_at - snapshot.now)
            self._reported(offender, _object_of(snapshot, each))
        return True

    def _search_again(self) -> None:
        """What couldn't be found is over, or another matter."""
        self._vain_searches, self._no_search_before = 0, 0.0

    def _release(self, suspects: Iterable[Suspect], now: float) -> None:
        for each in suspects:
            self._released[each] = self._offenders.pop(each), now
            _log.warning("%s is scheduled again", each)

    def _released_lately(self, snapshot: Snapshot, configuration: Configuration) -> Mapping[Suspect, Offender]:
        """Those that are still there; the others are forgotten."""
        self._released = {
            each: (known, since)
            for each, (known, since) in self._released.items()
            if snapshot.now - since < MOST_SECONDS and looks_of(snapshot, configuration, each) is not None
        }
        return {each: known for each, (known, _) in self._released.items()}

    def _with_notices(self, snapshot: Snapshot, decisions: Decisions, looks: Mapping[Suspect, object]) -> Decisions:
        """The decisions, with a word for each job that is left out, and the time of the next trial."""
        waiting = [
            _notice(job, offender)
            for each, offender in self._offenders.items()
            if (job := _job_of(snapshot, each)) is not None
        ]
        due_at = min(
            (each.next_trial_at(looks[suspect]) for suspect, each in self._offenders.items()),
            default=decisions.look_again_at,
        )
        return replace(
            decisions,
            waiting=(*decisions.waiting, *waiting),
            look_again_at=min(decisions.look_again_at, due_at),
        )


def _without(
    snapshot: Snapshot, configuration: Configuration, out: Mapping[Suspect, Offender]
) -> tuple[Snapshot, Configuration]:
    return without_suspects(snapshot, configuration, {each: known.text for each, known in out.items()})


class _Search:
    """Searches of one investigation. After every trial the process rests as it does after a cycle."""

    def __init__(self, rest: Callable[[float], Awaitable[None]], worker: WorkerThread, *, searching: bool) -> None:
        self._rest, self._worker, self._searching, self._spent = rest, worker, searching, 0.0

    async def run(
        self, snapshot: Snapshot, configuration: Configuration, among: frozenset[Suspect] | None
    ) -> list[Suspect] | None:
        search = find_culprits(
            snapshot,
            configuration,
            among,
            may_go_on=lambda: self._spent < SEARCH_SECONDS,
            searching=self._searching,
        )
        found: list[Suspect] | None = None

        def is_over() -> bool:
            nonlocal found
            try:
                next(search)
            except StopIteration as end:
                found = end.value
                return True
            return False

        while True:
            started = time.perf_counter()
            over = await self._worker.run(is_over)
            trial = time.perf_counter() - started
            self._spent += trial
            await self._rest(trial)
            if over:
                return found


def _notice(job: Job, offender: Offender) -> Waiting:
    statuses = {task.status for task in job.tasks}
    pending = tuple(task for task in job.tasks if task.status == TaskStatus.PENDING)
    reason = LeftOutOfCycles(offender.error)
    return Waiting(job, pending, (reason,), active=not statuses.isdisjoint(ACTIVE_ALLOCATED))


def _job_of(snapshot: Snapshot, suspect: Suspect) -> Job | None:
    return snapshot.jobs.get(ObjectKey(suspect.namespace, suspect.name)) if suspect.kind == POD_GROUP else None


def _object_of(snapshot: Snapshot, suspect: Suspect) -> KubeObject | None:
    """The object in Kubernetes, where the snapshot has it."""
    if suspect.kind == NODE and suspect.name in snapshot.nodes.rows:
        return snapshot.nodes.nodes[snapshot.nodes.rows[suspect.name]]
    job = _job_of(snapshot, suspect)
    return job.group if job is not None else None


def looks_of(snapshot: Snapshot, configuration: Configuration, suspect: Suspect) -> object:
    """All of an object that a decision may rest on, and nothing that is written because it is left out; None when it is
    gone."""
    if suspect.kind == POD_GROUP:
        job = _job_of(snapshot, suspect)
        return _looks_of_job(job) if job is not None else None
    if suspect.kind == NODE:
        node: Any = _object_of(snapshot, suspect)
        if node is None:
            return None
        meta, status = node.metadata, node.status
        return meta.uid, meta.labels, meta.annotations, node.spec, status.allocatable, status.capacity
    if suspect.kind == QUEUE:
        row = snapshot.queues.rows.get(suspect.name)
        if row is None:
            return None
        queue = snapshot.queues.queues[row]
        return tuple(getattr(queue, name) for name in queue.__slots__)
    return next((each for each in configuration.plugins if each.name == suspect.name), None)


def _looks_of_job(job: Job) -> object:
    meta = job.group.metadata
    pods = tuple(
        (
            task.pod.metadata.uid,
            task.status,
            task.node,
            task.pod.metadata.labels,
            task.pod.metadata.annotations,
            task.pod.spec,
        )
        for task in (*job.tasks, *job.orphan_tasks)
    )
    return meta.uid, meta.labels, meta.annotations, job.group.spec, job.priority, pods
