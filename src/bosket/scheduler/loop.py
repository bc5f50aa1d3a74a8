"""Scheduler: the scheduling loop: wait for a change, take a snapshot, decide, apply.

A cycle starts when an object changed, or at the time from which the last cycle said that the outcome may differ.
`decide` runs in a thread, so that leases, probes and watches are served meanwhile; decisions about tasks that changed
during the cycle are dropped and made again. Cycles place pods. Searches for victims may take seconds and run beside
them (`search_loop`). Under virtual time one cycle does both, on the event loop.

After a cycle the loop pauses. Without a thread it pauses for twice as long as the cycle took, so that the rest of the
process gets its share of the CPU; with one the pause is short. It is never shorter than needed to collect changes of
the next 0.1 s into one cycle where cycles are long.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace
from typing import NamedTuple

from bosket.kube.errors import KubeError
from bosket.runtime.service import Environment
from bosket.runtime.worker_thread import WorkerThread
from bosket.scheduler.actions import SEARCHING
from bosket.scheduler.answers.cycle_steps import log_steps
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.usage_parameters import parameters_from
from bosket.scheduler.configuration_watch import ConfigurationWatch
from bosket.scheduler.decide import about_idle_actions, decide, known_part, make_plugins
from bosket.scheduler.endpoints import add_endpoints
from bosket.scheduler.faults.failures import Failures
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposals, current_part
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.options import Options
from bosket.scheduler.recent_failures import RecentFailures
from bosket.scheduler.recording.flight.frames import CycleKind
from bosket.scheduler.recording.flight.recorder import NOT_RECORDED, FlightRecorder
from bosket.scheduler.recording.flight.writer import FlightWriter
from bosket.scheduler.search_loop import SearchLoop
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.handlers import Journal
from bosket.scheduler.usage.live import live_usage
from bosket.scheduler.usage.stores import open_source

_log = logging.getLogger(__name__)

#: A delay of placements that users don't notice: changes within it share a cycle.
_UNNOTICED_SECONDS = 0.1
#: The longest pause after a cycle in a thread: other tasks ran during the cycle already.
_LONGEST_REST_SECONDS = 0.2
#: Attempts at a cycle that raises, each without the culprits of the attempt before.
_ATTEMPTS = 3


class _Failed(NamedTuple):
    """A cycle that raised, with its snapshot."""

    snapshot: Snapshot
    error: Exception


class Scheduler:
    """The scheduler as a service."""

    name = "scheduler"

    def __init__(self, env: Environment, options: Options) -> None:
        self._env, self._options = env, options
        self._configuration = _known(options.configuration)
        seen = options.state()
        journal = Journal() if options.recording is not None else None
        self._state = ClusterState(seen, _log.warning, journal)
        self._recorder: FlightRecorder | None = None
        if options.recording is not None and journal is not None:
            writer = FlightWriter(options.recording / options.lease_name, options.recording_bounds)
            self._recorder = FlightRecorder(writer, self._state, journal, seen)
        self._metrics = SchedulerMetrics(env.metrics, self._configuration, options.metrics_namespace)
        self._feed = Feed(
            env.informers, self._state, in_shard=seen.in_shard, budgets=not options.evict_by_deletion,
            failed=self._metrics.failed,
        )  # fmt: skip
        self._applier = Applier(
            env,
            self._state,
            options,
            changed=self._feed.changed.set,
            evicted=self._metrics.evicted,
            requested=self._metrics.requested,
            failed=lambda: self._metrics.failed("apply"),
        )
        self._failures = Failures(env, options, self._state, self._feed, self._metrics, rest=self._rest)
        self._recent = RecentFailures()
        #: held from taking a snapshot until its decisions are applied
        self._placing = asyncio.Lock()
        self._worker = WorkerThread("placing", env.clock)
        self._searches = SearchLoop(
            env.clock,
            WorkerThread("searching", env.clock),
            failures=self._failures,
            applier=self._applier,
            metrics=self._metrics,
            placing=self._placing,
            configuration=lambda: self._configuration,
            binds_under_way=lambda: self._state.own.binds_under_way,
            least_pause_seconds=options.least_pause_seconds,
            recorder=self._recorder,
        )
        self._decided: Snapshot | None = None
        self._restored = False  # whether the stored memory of earlier runs is in the state
        self._look_again_at = math.inf
        self._cycles = 0  # the number of cycles, for the log
        self._idle_actions: tuple[str, ...] = ()  # the idle actions of the latest warning
        self._usage = live_usage(env, self._state, self._configuration, options.usage_source, options.metrics_namespace)
        self.lease_name = options.lease_name
        # Constructs the plugins, so that a wrong configuration fails before anything starts.
        self._pages = add_endpoints(env, self._state, options, self._configuration)
        self._usage_changed = asyncio.Event()
        self._watch = ConfigurationWatch(env, options, self.reconfigure)

    def reconfigure(self, configuration: Configuration) -> None:
        """Uses another configuration from the next cycle on, keeping the live state.

        Raises `ConfigurationError` for an invalid one and keeps the present one.
        """
        known = _known(configuration)
        if known == self._configuration:
            return
        make_plugins(known)
        if known.usage_db != self._configuration.usage_db:
            self._replace_usage(known)
        self._configuration = known
        before, self._pages = self._pages, add_endpoints(self._env, self._state, self._options, known)
        for path in before - self._pages:
            self._env.local_pages.discard(path)
        self._applier.reconfigure(known)
        self._metrics.configured(known)
        self._state.forget_verdicts()
        self._failures.quarantine.reconfigure()
        self._searches.start_anew()
        self._recent.forget()
        self._decided = None
        self._feed.changed.set()
        _log.info("a new configuration is in force", extra={"actions": ", ".join(known.actions)})

    def _replace_usage(self, configuration: Configuration) -> None:
        if configuration.usage_db is not None:
            # Raises for invalid settings, before anything has changed.
            open_source(configuration.usage_db)
            parameters_from(configuration.usage_db.usageParams)
        if self._usage is not None:
            self._usage.withdraw()
        options = self._options
        self._usage = live_usage(self._env, self._state, configuration, options.usage_source, options.metrics_namespace)
        self._usage_changed.set()

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._recorder is not None:
                self._recorder.close()

    async def _run(self) -> None:
        self._decided, self._restored = None, False
        self._applier.start_anew()
        self._searches.start_anew()
        self._recent.forget()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._applier.run())
            await self._watch.wait_synced()
            group.create_task(self._watch.run())
            await self._feed.follow_devices(self._env.client)
            await self._feed.wait_synced()
            await self._restore()
            group.create_task(self._follow_usage())
            if self._usage is not None:
                await self._usage.wait_first()
            if self._searches_beside:
                group.create_task(self._searches.run())
            while True:
                await self._wait_for_change()
                spent = await self._cycle()
                self._failures.update_metrics()
                await self._failures.keep_evidence()
                await self._rest(spent)

    @property
    def _searches_beside(self) -> bool:
        """Whether cycles only place and victims are searched for beside them."""
        return self._worker.is_beside

    async def _rest(self, spent: float) -> None:
        """Pauses after so many seconds of work; short where a thread decides, because new pods wait."""
        most = _LONGEST_REST_SECONDS if self._searches_beside else math.inf
        await self._env.clock.sleep(rest_seconds(spent, self._options.least_pause_seconds, most))

    async def _follow_usage(self) -> None:
        """Runs the configured usage database, and its successor after a reconfiguration."""
        while True:
            self._usage_changed.clear()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self._usage.run()) if self._usage is not None else None
                await self._usage_changed.wait()
                if running is not None:
                    running.cancel()

    async def _cycle(self) -> float:
        """One cycle; returns the CPU seconds of its last attempt. Takes long only when `decide` raised, until the
        culprits are known."""
        spent = 0.0
        for _ in range(_ATTEMPTS):
            self._feed.changed.clear()
            if not await self._restore():
                break
            async with self._placing:
                now = self._env.clock.now()
                spent, failed = await self._decide_and_apply(now)
            if failed is None:
                break
            self._look_again_at = now + self._options.schedule_period_seconds
            searching = not self._searches_beside
            if not await self._failures.found_culprits(
                failed.snapshot, self._configuration, failed.error, spent, searching=searching
            ):
                break
            self._look_again_at = now
        return spent

    async def _decide_and_apply(self, now: float) -> tuple[float, _Failed | None]:
        """Snapshot, decide, apply; returns the CPU seconds, and the failure if `decide` raised."""
        began = time.thread_time()
        current = await self._failures.take_snapshot(now)
        # The same snapshot object means that no object changed, so the decisions would be the same.
        if current is None or (current is self._decided and now < self._look_again_at):
            return 0.0, None
        self._decided, whole = current, replace(current, now=now)
        # In a full cluster this makes a cycle's cost follow the new pods, not all pending ones.
        snapshot = self._recent.without(whole) if self._searches_beside else whole
        looking, deciding = time.thread_time() - began, 0.0
        self._metrics.snapshot_taken(looking)
        number = self._record(snapshot, whole)

        async def compute(part: Snapshot, known: Configuration) -> Decisions:
            nonlocal deciding
            decisions, deciding = await self._worker.run(lambda: self._decide(part, known))
            return decisions

        try:
            seen, decisions = await self._failures.quarantine.decide(snapshot, self._configuration, compute)
        except Exception as error:
            if self._recorder is not None:
                self._recorder.end(number, None, looking, f"{type(error).__name__}: {error}")
            return looking, _Failed(snapshot, error)
        if self._recorder is not None:
            self._recorder.end(number, decisions, looking + deciding)
        began = time.thread_time()
        await self._apply(seen, decisions, tried_all=snapshot is whole)
        if self._searches_beside:
            self._follow_up(whole, snapshot, decisions)
        spent = looking + deciding + time.thread_time() - began
        self._metrics.decided(seen, decisions, spent)
        self._cycles += 1
        log_steps(_log, f"cycle {self._cycles}", seen, self._configuration, decisions)
        return spent, None

    def _record(self, snapshot: Snapshot, whole: Snapshot) -> int:
        """Records what a cycle decides on; the cycle's number in the recording."""
        if self._recorder is None:
            return NOT_RECORDED
        kind: CycleKind = "place" if self._searches_beside else "whole"
        quarantined = tuple(str(each.suspect) for each in self._failures.quarantine.offenders)
        return self._recorder.begin(snapshot, self._configuration, kind, whole=whole, quarantined=quarantined)

    def _decide(self, snapshot: Snapshot, configuration: Configuration) -> tuple[Decisions, float]:
        """Runs in the worker's thread; returns the decisions and their CPU seconds."""
        began = time.thread_time()
        proposals: Proposals | None = {} if self._searches_beside else None
        return decide(snapshot, configuration, self._metrics.watch, proposals=proposals), time.thread_time() - began

    async def _restore(self) -> bool:
        """Restores the stored memory once; False while the state can't be read or the memory can't be restored."""
        if not self._restored and await self._failures.take_snapshot(self._env.clock.now()) is not None:
            try:
                await self._applier.restore()
            except KubeError:
                raise
            except Exception:
                _log.exception("the stored memory can't be restored yet")
                self._metrics.failed("snapshot")
                return False
            self._restored = True
        return self._restored

    def _follow_up(self, whole: Snapshot, tried: Snapshot, decisions: Decisions) -> None:
        """Starts a search for victims on behalf of jobs without room, and schedules the next cycle with all jobs."""
        self._recent.note(whole, tried, decisions)
        if tried is not whole:
            self._look_again_at = min(self._look_again_at, self._recent.all_due_at)
        waits = self._recent or any(each.tasks for each in decisions.waiting)
        if waits and not SEARCHING.isdisjoint(self._configuration.actions):
            self._searches.want()

    async def _apply(self, snapshot: Snapshot, decisions: Decisions, *, tried_all: bool) -> None:
        self._look_again_at = decisions.look_again_at
        current, changed = current_part(decisions, self._state.task)
        if changed:
            self._decided = None  # the next cycle decides again on the changed tasks
            self._recent.forget()
        await self._applier.apply(snapshot, current, tried_all=tried_all)
        if decisions.idle_actions != self._idle_actions:
            self._idle_actions = decisions.idle_actions
            if self._idle_actions:
                _log.warning("%s", about_idle_actions(self._idle_actions))
        for plugin, error in decisions.plugin_failures:
            _log.warning("plugin %s failed when the session closed: %s", plugin, error)

    async def _wait_for_change(self) -> None:
        period = min(self._options.schedule_period_seconds, max(0.0, self._look_again_at - self._env.clock.now()))
        try:
            async with asyncio.timeout(period):
                await self._feed.changed.wait()
        except TimeoutError:
            pass  # the time alone may change the outcome


def _known(configuration: Configuration) -> Configuration:
    """The part of the configuration that this version has; a warning names the rest."""
    known, missing = known_part(configuration)
    if missing:
        _log.warning("the configuration names what this version doesn't have, and runs without: %s", ", ".join(missing))
    return known


def rest_seconds(spent: float, least: float, most: float = math.inf) -> float:
    """The pause after a cycle that took `spent` seconds of work."""
    return max(least, min(2 * spent, most), min(20 * spent, _UNNOTICED_SECONDS))


def service(env: Environment, options: Options | None = None) -> Scheduler:
    """The scheduler as a service of this environment."""
    return Scheduler(env, options or Options())
