"""Failures: what the scheduler does after an exception: finds the culprits, reports them, and keeps the snapshot.

Called by both loops with exceptions of `decide` or the live state. `quarantine` decides what cycles leave out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bosket.api.object import KubeObject
from bosket.runtime.service import Environment
from bosket.runtime.worker_thread import WorkerThread
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.faults.culprits import Suspect, failure_place
from bosket.scheduler.faults.failed_snapshots import FailedSnapshots
from bosket.scheduler.faults.quarantine import MOST_SECONDS, Offender, Quarantine
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.model.reason import SCHEDULER_FAILED
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.options import Options
from bosket.scheduler.recording.recorded import Recorded
from bosket.scheduler.recording.writer import take
from bosket.scheduler.state.cluster_state import ClusterState

_log = logging.getLogger(__name__)


class Failures:
    """Handles the failures of one scheduler."""

    def __init__(
        self,
        env: Environment,
        options: Options,
        state: ClusterState,
        feed: Feed,
        metrics: SchedulerMetrics,
        *,
        rest: Callable[[float], Awaitable[None]],
    ) -> None:
        """`rest` waits after so many seconds of work."""
        self._options, self._state, self._feed, self._metrics, self._rest = options, state, feed, metrics, rest
        self.quarantine = Quarantine(self._report_left_out, rest, WorkerThread("trials", env.clock))
        self._evidence: list[Recorded] = []  # snapshots of cycles that failed, to be kept
        self._kinds: set[str] = set()  # where it was raised that nothing helped against
        self._failed = FailedSnapshots(options.failed_snapshots)
        self._failed.add_pages(env.local_pages, lambda: self.quarantine.offenders)
        self._events = env.events.for_component(options.scheduler_name)
        self._vain_looks, self._no_search_before = 0, 0.0
        self._investigating = asyncio.Lock()  # placing and searching may fail at the same time

    async def take_snapshot(self, now: float) -> Snapshot | None:
        """The newest snapshot; None when none can be taken, whatever is left out."""
        try:
            snapshot = self._state.snapshot(now)
        except Exception as error:
            _log.exception("no snapshot can be taken")
            self._metrics.failed("snapshot")
            if await self._left_out_any(now, error):
                try:
                    return self._state.snapshot(now)
                except Exception:
                    _log.exception("still no snapshot can be taken")
            _log.error("nothing is scheduled in this cycle")
            return None
        self._feed.looked_at()
        self._vain_looks, self._no_search_before = 0, 0.0
        return snapshot

    async def _left_out_any(self, now: float, error: Exception) -> bool:
        """Excludes objects that make `snapshot()` raise; returns whether any were found. Tests recently changed objects
        first, then all; a failed full search is repeated only after a back-off."""
        if self._feed.leave_out_latest(now, error):
            return True
        if now < self._no_search_before:
            return False
        if await self._feed.leave_out_any(ClusterState(self._options.state()), now, error, self._rest):
            return True
        self._vain_looks += 1
        self._no_search_before = now + min(MOST_SECONDS, 10.0 * 2.0 ** min(self._vain_looks, 10))
        return False

    async def found_culprits(
        self, snapshot: Snapshot, configuration: Configuration, error: Exception, spent: float, *, searching: bool
    ) -> bool:
        """Whether it is known now what to leave out. The snapshot is recorded before anything else happens to the
        state. `searching`: whether it failed where victims are searched for, too."""
        _log.error("a scheduling cycle failed", exc_info=error)
        self._metrics.failed("decide")
        recorded = take(self._state, self._options.state(), configuration, snapshot.now)
        known = {each.suspect for each in self.quarantine.offenders}
        await self._rest(spent)
        async with self._investigating:
            found = await self.quarantine.investigate(snapshot, configuration, error, searching=searching)
        if found:
            is_news = any(each.suspect not in known for each in self.quarantine.offenders)
        else:
            _log.error("nothing is scheduled in this cycle: no job, node or queue was found without which it succeeds")
            kind = f"{type(error).__name__} {failure_place(error)}"
            is_news = kind not in self._kinds
            self._kinds.add(kind)
        if is_news:
            self._evidence.append(recorded)
        return found

    async def keep_evidence(self) -> None:
        """Once everything else is scheduled."""
        while self._evidence:
            path = await self._failed.keep(self._evidence.pop(0))
            if path is not None:
                _log.error("the snapshot that the scheduler failed on is in %s, for bosket replay", path)

    def update_metrics(self) -> None:
        """Of all that cycles do without. Also where nothing was decided: what can't be read may make no other
        snapshot."""
        unread = {*self._state.unread(), *self._feed.left_out}
        suspects = {Suspect(kind.__name__, key.name, key.namespace) for kind, key in unread}
        self._metrics.left_out(suspects.union(each.suspect for each in self.quarantine.offenders))

    def _report_left_out(self, offender: Offender, obj: KubeObject | None) -> None:
        if obj is not None:
            self._events.event(obj, "Warning", SCHEDULER_FAILED, offender.text)
