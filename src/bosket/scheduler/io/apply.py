"""Applier: carries decisions out: bind requests, evictions, annotations of pod groups, conditions and events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import ParamSpec

from bosket.api.keys import DEFAULT_NODE_POOL, LAST_START_ANNOTATION, STALE_SINCE_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.runtime.service import Environment
from bosket.runtime.worker_thread import Slices
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.io.bind_writer import BindWriter
from bosket.scheduler.io.evictor import Evictor
from bosket.scheduler.io.fair_share_writer import FairShareWriter
from bosket.scheduler.io.memory_store import MemoryStore
from bosket.scheduler.io.note_writer import NoteWriter, stamp
from bosket.scheduler.io.status_writer import PendingWrite, StatusWriter
from bosket.scheduler.io.waiting_reports import WaitingReports
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline, StaleGang, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.proposal import is_unchanged
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_USED, TaskStatus
from bosket.scheduler.options import Options
from bosket.scheduler.plugins.minruntime import is_in_force
from bosket.scheduler.state.cluster_state import ClusterState

_log = logging.getLogger(__name__)
P = ParamSpec("P")

UNSCHEDULABLE = "Unschedulable"
PIPELINED, STALE = "Pipelined", "StaleJob"


class Applier:
    """Carries decisions out. `apply` never waits for a write: workers write in the background."""

    def __init__(
        self,
        env: Environment,
        state: ClusterState,
        options: Options,
        *,
        changed: Callable[[], None],
        evicted: Callable[[Eviction], None],
        requested: Callable[[float], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`failed` is called for every step that raised. `changed` is called when the state changed otherwise than by
        a watch, `evicted` for every pod that goes, and `requested` for every bind request that is written, with the
        seconds that it took."""
        self._client, self._clock, self._state = env.client, env.clock, state
        self._failed = failed
        self._events = env.events.for_component(options.scheduler_name)
        self._status = StatusWriter(env)
        self._notes = NoteWriter(env.client, state.own, self._status)
        self._configuration = options.configuration
        self._starts_matter = False
        self._binds = BindWriter(env, state, options, events=self._events, changed=changed, requested=requested)
        self._memory = MemoryStore(env, state, options.lease_name)
        self._evictor = Evictor(
            env, state.own, events=self._events, notes=self._notes, changed=changed, evicted=evicted,
            save=self._memory.save, by_deletion=options.evict_by_deletion,
        )  # fmt: skip
        self._pipelined: dict[ObjectKey, Pipeline] = {}  # of the last cycle, by pod
        self._staleness: dict[ObjectKey, str] = {}  # what was said of gangs that are stale
        self._fair_shares = FairShareWriter(env.client, env.clock, self._status)
        self._reports = WaitingReports(
            env, state, self._status, events=self._events, node_pool=options.node_pool or DEFAULT_NODE_POOL
        )
        self._find = state.task
        self._slices = Slices(env.clock)
        # Jobs on which the last search beside the loop reported, as they were then.
        self._searched_for: dict[ObjectKey, Job] = {}

    def reconfigure(self, configuration: Configuration) -> None:
        """Uses the configuration for decisions from now on."""
        self._configuration = configuration
        self._searched_for = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._status.run())
            group.create_task(self._reports.run())
            group.create_task(self._fair_shares.run())
            group.create_task(self._binds.run())
            group.create_task(self._evictor.run())
            group.create_task(self._memory.run())

    def start_anew(self) -> None:
        """Called before `run`: drops what an earlier run left undone."""
        self._evictor.start_anew()
        self._memory.start_anew()
        self._searched_for = {}
        self._reports.start_anew()
        self._fair_shares.start_anew()

    async def restore(self) -> None:
        """Called before the first cycle, once all objects are in the state: restores the memory of an earlier run or
        leader, and continues its evictions."""
        self._evictor.evict(await self._memory.restore())

    async def apply(self, snapshot: Snapshot, decisions: Decisions, *, tried_all: bool = True) -> None:
        """Carries decisions out. A step that raises is logged and skipped; a later cycle decides again.

        Works in slices. Pods that changed during a pause aren't bound, nor is the rest of their gang. `tried_all`:
        False where some waiting jobs weren't tried; their last report stays.
        """
        self._slices.begin()
        self._try("bind requests that nobody will carry out", self._binds.remove, snapshot.dead_bind_requests)
        for _, group in groupby(decisions.lasting_binds, key=_job_key):
            binds = list(group)
            if await self._slices.pause() and not all(is_unchanged(each.task, self._find) for each in binds):
                continue
            for bind in binds:
                self._status.forget(("Pod", bind.task.key))
                self._try(f"the binding of pod {bind.task.key}", self._binds.request, bind)
        await self._evict(snapshot, decisions)
        self._try("starts of jobs", self._note_starts, snapshot, decisions)
        before, self._pipelined = self._pipelined, _pipelined_pods(decisions)
        self._try("events of pipelined pods", self._report_pipelined, before)
        self._try("stale gangs", self._report_stale, decisions)
        self._reports.decided(snapshot, decisions)
        self._fair_shares.decided(decisions.fair_share)
        for waiting in decisions.waiting:
            if decisions.has_a_place(waiting):
                self._reports.forget(waiting.job)
            elif not self._is_searched_for(waiting.job):
                await self._report_once(waiting)
        for job in decisions.placed:
            self._reports.forget(job)
        if tried_all:
            still = {each.job.key for each in decisions.waiting}
            self._reports.keep_only(still)
        for job in decisions.settled:
            self._try(f"the condition of pod group {job.key}", self._reports.settle, job)

    async def apply_findings(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Carries out what a search beside the loop found: evictions, and the nominations that go with them."""
        self._slices.begin()
        await self._evict(snapshot, decisions)
        before = self._pipelined
        self._pipelined = before | _pipelined_pods(decisions)
        self._try("events of pipelined pods", self._report_pipelined, before)

    async def report_searched(self, decisions: Decisions) -> None:
        """Reports why no pod is evicted for these jobs, after a search beside the loop."""
        self._slices.begin()
        self._searched_for = {each.job.key: each.job for each in decisions.waiting}
        for waiting in decisions.waiting:
            await self._report_once(waiting)

    def _is_searched_for(self, job: Job) -> bool:
        """Whether the last search reported why these pods of the job wait. A search knows more than a cycle that only
        places: what was tried, and why no pod is evicted."""
        searched = self._searched_for.get(job.key)
        return searched is job or (searched is not None and _pending_pods(searched) == _pending_pods(job))

    async def _evict(self, snapshot: Snapshot, decisions: Decisions) -> None:
        # The memory is written before the first eviction: if this process dies in between, the next one must know for
        # which job the pods were evicted.
        self._try("what the next cycles are bound to", self._state.remember, decisions, snapshot.now)
        self._memory.changed()
        for _, group in groupby(decisions.lasting_evictions, key=_for_whom):
            self._try("evictions", self._evictor.evict, list(group))
            await self._slices.pause()

    async def _report_once(self, waiting: Waiting) -> None:
        """Reports why a job waits, unless the last report said the same."""
        if not self._reports.is_reported(waiting):
            await self._slices.pause()
            self._try(f"the condition of pod group {waiting.job.key}", self._reports.report, waiting)

    def _try(self, what: str, do: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Runs one step; an exception is logged and counted and does not stop the other steps."""
        try:
            do(*args, **kwargs)
        except Exception:
            _log.exception("%s: failed; the scheduler continues with the rest", what)
            self._failed()

    def _note_starts(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Annotates jobs that start. Written only where a minimum run time is configured, because each is a write."""
        mattered, self._starts_matter = self._starts_matter, is_in_force(snapshot, self._configuration)
        if self._starts_matter and not mattered:
            self._notes.write_kept()
        note = self._notes.write if self._starts_matter else self._notes.keep
        bound = {bind.job.key for bind in decisions.lasting_binds}
        for job in decisions.started:
            if job.key in bound:
                note(job.group, LAST_START_ANNOTATION, stamp(self._clock.now()))

    def _report_pipelined(self, before: Mapping[ObjectKey, Pipeline]) -> None:
        """Sends an event for each newly pipelined pod, and again when its node changes."""
        for key, each in self._pipelined.items():
            self._status.forget(("Pod", key))
            if key not in before or before[key].node != each.node:
                self._events.event(each.task.pod, "Normal", PIPELINED, f"Pod {key} was pipelined to node {each.node}")

    def _report_stale(self, decisions: Decisions) -> None:
        for each in decisions.stale:
            self._mark_stale(each)
        for job in decisions.recovered:
            self._notes.write(job.group, STALE_SINCE_ANNOTATION, None)
            self._status.forget((STALE, job.key))
        stale = {each.job.key for each in decisions.stale}
        self._staleness = {key: text for key, text in self._staleness.items() if key in stale}

    def _mark_stale(self, stale: StaleGang) -> None:
        key, text = stale.job.key, _staleness(stale)
        if stale.job.history.stale_since is None:
            self._notes.write(stale.job.group, STALE_SINCE_ANNOTATION, stamp(stale.since))
        elif self._staleness.get(key) == text:
            return  # the event was sent before

        async def write() -> None:
            self._staleness[key] = text
            self._events.event(stale.job.group, "Normal", STALE, text)

        self._status.submit((STALE, key), PendingWrite((text,), write))


def _job_key(bind: Bind) -> ObjectKey:
    return bind.job.key


def _for_whom(eviction: Eviction) -> tuple[str, ObjectKey]:
    """Evictions with equal keys are carried out as one batch."""
    return eviction.action, (eviction.preemptor or eviction.job).key


def _pipelined_pods(decisions: Decisions) -> dict[ObjectKey, Pipeline]:
    """Pipelined pods by key, without pods that only move: these still run."""
    return {
        each.task.key: each
        for each in decisions.outcome.values()
        if isinstance(each, Pipeline) and each.task.status == TaskStatus.PENDING
    }


def _pending_pods(job: Job) -> frozenset[str]:
    return frozenset(task.uid for task in job.tasks if task.status == TaskStatus.PENDING)


def _staleness(stale: StaleGang) -> str:
    """KAI's sentence about a stale gang, and why it isn't evicted yet."""
    sets = [(each, sum(task.status in ACTIVE_USED for task in each.tasks)) for each in stale.job.pod_sets]
    needed = sum(each.min_available for each, _ in sets)
    text = f"Job is stale. {sum(active for _, active in sets)} pods are active, minMember is {needed}"
    for each, active in sets:
        name = stale.job.shown_name(each)
        if name and active < each.min_available:
            text += f", subGroup {name} minMember is {each.min_available} and {active} pods are active"
    return f"{text}. {stale.refused}" if stale.refused is not None else text
