"""SearchLoop: searches for victims beside the loop that places.

A search runs in a thread on the newest snapshot and may take seconds; meanwhile pods with room are placed. Findings are
applied as they are where their jobs, nodes and queues did not change. Other findings are checked again on the newest
snapshot, with the same victims and by the same rules (`proposal`); what no longer holds is dropped and counted. The
next search starts after a change and after a pause as long as the last search. While many pods are being bound a search
waits: the binder and the API server need the CPU, and each bind would outdate the search.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, NamedTuple

from bosket.runtime.clock import Clock
from bosket.runtime.worker_thread import WorkerThread
from bosket.scheduler.answers.cycle_steps import log_steps
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.faults.failures import Failures
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposal, Proposals, by_action, split
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.flight.frames import CycleKind
from bosket.scheduler.recording.flight.recorder import NOT_RECORDED, FlightRecorder

_log = logging.getLogger(__name__)

#: How often findings are checked again on newer snapshots before they are dropped.
CHECKS: Final = 3
#: The size of one check, in evicted pods: later findings then see the earlier ones applied.
CHECKED_PODS: Final = 500
#: A search waits while more bind requests than this are pending, up to so many seconds.
MANY_BINDS: Final = 100
MOST_WAIT_SECONDS: Final = 10.0
_BINDS_LOOK_SECONDS: Final = 0.05
#: The back-off after a search that raised without a known culprit; doubled each time.
FIRST_RETRY_SECONDS: Final = 1.0
MOST_RETRY_SECONDS: Final = 60.0


class Abandoned(Exception):
    """Raised inside a search whose result is no longer wanted."""


class _Searched(NamedTuple):
    """The decisions of a search or a check, with their snapshot."""

    snapshot: Snapshot
    decisions: Decisions
    spent: float


class SearchLoop:
    """Searches for victims for one scheduler, one search at a time."""

    def __init__(
        self,
        clock: Clock,
        worker: WorkerThread,
        *,
        failures: Failures,
        applier: Applier,
        metrics: SchedulerMetrics,
        placing: asyncio.Lock,
        configuration: Callable[[], Configuration],
        binds_under_way: Callable[[], int],
        least_pause_seconds: float,
        recorder: FlightRecorder | None = None,
    ) -> None:
        """`placing`: the lock that the placing loop holds from a snapshot until its decisions are applied, so that
        findings are compared with a snapshot that shows them. `binds_under_way`: the number of pending bind
        requests."""
        self._binds_under_way, self._recorder = binds_under_way, recorder
        self._clock, self._worker, self._failures = clock, worker, failures
        self._applier, self._metrics, self._placing = applier, metrics, placing
        self._configuration, self._least_pause_seconds = configuration, least_pause_seconds
        self._wanted = asyncio.Event()
        self._abandoned = threading.Event()  # set to end the running search
        self._searched: Snapshot | None = None
        self._again_at = math.inf
        self._failed = 0  # consecutive searches that raised without a known culprit

    def want(self) -> None:
        """Asks for a search: some jobs found no room."""
        self._wanted.set()

    def start_anew(self) -> None:
        """Ends the running search: the configuration changed or another run begins."""
        self._abandoned.set()
        self._searched = None
        self._again_at = math.inf

    async def run(self) -> None:
        try:
            while True:
                await self._wait()
                await self._let_binds_go_first()
                spent = await self._search()
                await self._clock.sleep(max(self._least_pause_seconds, spent))
        finally:
            self._abandoned.set()

    async def _wait(self) -> None:
        """Waits until a search is wanted, or time alone may have changed the outcome."""
        until = self._again_at - self._clock.now()
        try:
            async with asyncio.timeout(None if math.isinf(until) else max(0.0, until)):
                await self._wanted.wait()
        except TimeoutError:
            pass
        self._wanted.clear()

    async def _let_binds_go_first(self) -> None:
        until = self._clock.monotonic() + MOST_WAIT_SECONDS
        while self._binds_under_way() > MANY_BINDS and self._clock.monotonic() < until:
            await self._clock.sleep(_BINDS_LOOK_SECONDS)

    async def _search(self) -> float:
        """One search and its consequences; returns the seconds that it took."""
        now = self._clock.now()
        current = await self._failures.take_snapshot(now)
        if current is None or (current is self._searched and now < self._again_at):
            return 0.0
        self._searched = current
        found = await self._decide(current, now, None)
        if found is None:
            return 0.0
        self._again_at = found.decisions.look_again_at
        self._metrics.searched(found.decisions, found.spent)
        outdated = await self._carry_out(found, tells=True)
        return found.spent + await self._check(outdated)

    async def _check(self, outdated: tuple[Proposal, ...]) -> float:
        """Checks findings on the newest snapshot, repeatedly while it changes; returns the seconds that it took."""
        spent, dropped = 0.0, 0
        checks = CHECKS
        while outdated:
            part = _first(outdated, CHECKED_PODS)
            rest = outdated[len(part) :]
            now = self._clock.now()
            current = await self._failures.take_snapshot(now)
            checked = await self._decide(current, now, by_action(part)) if current is not None else None
            if checked is None:
                dropped += len(outdated)
                break
            spent += checked.spent
            # A checked finding may be outdated again by changes during the check: it goes round, at most `CHECKS`
            # times.
            again = await self._carry_out(checked, tells=False)
            confirmed = {each.preemptor.key for each in checked.decisions.lasting_evictions if each.preemptor}
            dropped += sum(each.job not in confirmed for each in part)
            checks -= bool(again)
            if not checks:
                dropped += len(again) + len(rest)
                break
            outdated = (*again, *rest)
        if dropped:
            self._metrics.findings("dropped", dropped)
            _log.info(
                "findings of a search are dropped, because the cluster has changed since", extra={"jobs": dropped}
            )
        return spent

    async def _decide(self, current: Snapshot, now: float, proposals: Proposals | None) -> _Searched | None:
        """Calls `decide` in the thread; None when it raises or the configuration changed meanwhile."""
        self._abandoned = abandoned = threading.Event()
        configuration, snapshot = self._configuration(), replace(current, now=now)

        def watch(step: str, name: str) -> AbstractContextManager[None]:
            # `decide` can't be interrupted from outside, but it enters this timer at every step.
            if abandoned.is_set():
                raise Abandoned
            return self._metrics.watch(step, name)

        def work(part: Snapshot, known: Configuration) -> tuple[Decisions, float]:
            began = time.thread_time()
            return decide(part, known, watch, proposals=proposals), time.thread_time() - began

        number, spent = self._record(snapshot, proposals), 0.0

        async def compute(part: Snapshot, known: Configuration) -> Decisions:
            nonlocal spent
            decisions, spent = await self._worker.run(lambda: work(part, known))
            return decisions

        started = time.perf_counter()
        try:
            decisions = await self._failures.quarantine.search(snapshot, configuration, compute)
        except Abandoned:
            self._note_end(number, None, spent, "abandoned")
            return None
        except Exception as error:
            self._note_end(number, None, spent, f"{type(error).__name__}: {error}")
            await self._investigate(snapshot, configuration, error, time.perf_counter() - started)
            return None
        self._failed = 0
        self._note_end(number, decisions, spent)
        what = "search" if proposals is None else "check of what a search found"
        log_steps(_log, what, snapshot, configuration, decisions)
        return None if abandoned.is_set() else _Searched(current, decisions, spent)

    def _record(self, snapshot: Snapshot, proposals: Proposals | None) -> int:
        """Records what a search or a check decides on; its number in the recording."""
        if self._recorder is None:
            return NOT_RECORDED
        kind: CycleKind = "search" if proposals is None else "check"
        quarantined = tuple(str(each.suspect) for each in self._failures.quarantine.offenders)
        return self._recorder.begin(snapshot, self._configuration(), kind, proposals=proposals, quarantined=quarantined)

    def _note_end(self, number: int, decisions: Decisions | None, spent: float, error: str = "") -> None:
        if self._recorder is not None:
            self._recorder.end(number, decisions, spent, error)

    async def _investigate(
        self, snapshot: Snapshot, configuration: Configuration, error: Exception, spent: float
    ) -> None:
        """After a search that raised: leaves the culprit out of the next search, or backs off."""
        self._searched = None
        if await self._failures.found_culprits(snapshot, configuration, error, spent, searching=True):
            self._wanted.set()
            return
        self._failed += 1
        pause = min(MOST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(self._failed, 10))
        self._again_at = self._clock.now() + pause

    async def _carry_out(self, found: _Searched, *, tells: bool) -> tuple[Proposal, ...]:
        """Applies the findings that still hold; returns the others as proposals for a newer snapshot.

        `tells`: whether jobs' statuses are written. A check searches for no victims, so it knows less than the search.
        """
        async with self._placing:
            now = self._clock.now()
            newest = await self._failures.take_snapshot(now)
            if newest is None:
                return ()
            # Under the lock: a cycle that places must not decide between the comparison and the application.
            parts = split(found.decisions, found.snapshot, newest)
            await self._applier.apply_findings(replace(newest, now=now), parts.current)
            if tells:
                await self._applier.report_searched(parts.current)
        served = {each.preemptor.key for each in parts.current.lasting_evictions if each.preemptor}
        self._metrics.findings("applied", len(served))
        self._metrics.findings("checked", len(parts.outdated))
        self._metrics.evictions_decided(parts.current)
        return parts.outdated


def _first(proposals: tuple[Proposal, ...], most_pods: int) -> tuple[Proposal, ...]:
    """The first proposals that together evict at most so many pods; at least one."""
    count, pods = 1, proposals[0].evicted
    while count < len(proposals) and (pods := pods + proposals[count].evicted) <= most_pods:
        count += 1
    return proposals[:count]
