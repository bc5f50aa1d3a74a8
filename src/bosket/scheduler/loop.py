"""The scheduling loop, on one screen: wait for a change, take a snapshot, decide, apply.

A cycle starts as soon as something changed, or when the cycle before said that time alone makes a difference. The loop
rests for at least twice as long as the last cycle took, so that a cluster where everything changes all the time leaves
room for the rest of the process; and for longer, up to a moment that nobody notices, so that what changes in such a
cluster is decided on together.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace

from bosket.api.object import KubeObject
from bosket.kube.errors import KubeError
from bosket.runtime.service import Environment
from bosket.scheduler.cache.apply import Applier
from bosket.scheduler.cache.feed import Feed
from bosket.scheduler.configuration_watch import ConfigurationWatch
from bosket.scheduler.culprits import Suspect, failure_place
from bosket.scheduler.decide import about_idle_actions, known_part, make_plugins
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.endpoints import add_endpoints
from bosket.scheduler.failed_snapshots import FailedSnapshots
from bosket.scheduler.framework.configuration import Configuration
from bosket.scheduler.metrics import SchedulerMetrics
from bosket.scheduler.options import Options
from bosket.scheduler.quarantine import MOST_SECONDS, Offender, Quarantine
from bosket.scheduler.reason import SCHEDULER_FAILED
from bosket.scheduler.snapshot.recorded import Recorded
from bosket.scheduler.snapshot.recording import take
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.scheduler.snapshot.state import ClusterState
from bosket.scheduler.usage.live import live_usage
from bosket.scheduler.usage.parameters import parameters_from
from bosket.scheduler.usage.source import open_source

_log = logging.getLogger(__name__)

#: Nobody minds that a pod is placed so much later.
_UNNOTICED_SECONDS = 0.1
#: Cycles that are tried in a row when they fail, each without what was found to make the one before fail.
_ATTEMPTS = 3


class Scheduler:
    """The scheduler as a service."""

    name = "scheduler"

    def __init__(self, env: Environment, options: Options) -> None:
        self._env, self._options = env, options
        self._configuration = _known(options.configuration)
        seen = options.state()
        self._state = ClusterState(seen, report=_log.warning)
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
        self._quarantine = Quarantine(self._tell_left_out, self._rest)
        self._evidence: list[Recorded] = []  # snapshots of cycles that failed, to be kept
        self._failure_places: set[str] = set()  # where it was raised that nothing helped against
        self._failed = FailedSnapshots(options.failed_snapshots)
        self._failed.add_pages(env.local_pages, lambda: self._quarantine.offenders)
        self._events = env.events.for_component(options.scheduler_name)
        self._decided: Snapshot | None = None
        self._restored = False  # whether what was remembered before this run is taken over
        self._vain_looks, self._no_search_before = 0, 0.0
        self._look_again_at = math.inf
        self._idle_actions: tuple[str, ...] = ()  # of which the log warned
        self._usage = live_usage(env, self._state, self._configuration, options.usage_source, options.metrics_namespace)
        self.lease_name = options.lease_name
        # Makes the plugins: what is wrong with the configuration is said before anything starts.
        self._pages = add_endpoints(env, self._state, options, self._configuration)
        self._usage_changed = asyncio.Event()
        self._watch = ConfigurationWatch(env, options, self.reconfigure)

    def reconfigure(self, configuration: Configuration) -> None:
        """Decide by another configuration from the next cycle on, with all that is known and remembered.

        Raises `ConfigurationError` for one that can't be followed, and goes on as before.
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
        self._quarantine.reconfigure()
        self._decided = None
        self._feed.changed.set()
        _log.info("another configuration is in force", extra={"actions": ", ".join(known.actions)})

    def _replace_usage(self, configuration: Configuration) -> None:
        if configuration.usage_db is not None:
            # Raises what is wrong, before anything has changed.
            open_source(configuration.usage_db)
            parameters_from(configuration.usage_db.usageParams)
        if self._usage is not None:
            self._usage.withdraw()
        options = self._options
        self._usage = live_usage(self._env, self._state, configuration, options.usage_source, options.metrics_namespace)
        self._usage_changed.set()

    async def run(self) -> None:
        self._decided, self._restored = None, False
        self._applier.start_anew()
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
            while True:
                await self._wait_for_change()
                spent = await self._cycle()
                self._tell_metrics()
                await self._keep_evidence()
                await self._rest(spent)

    async def _rest(self, spent: float) -> None:
        """Others' turn, after so many seconds of work."""
        await self._env.clock.sleep(rest_seconds(spent, self._options.least_pause_seconds))

    async def _follow_usage(self) -> None:
        """The usage database that is configured, and after it the next one."""
        while True:
            self._usage_changed.clear()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self._usage.run()) if self._usage is not None else None
                await self._usage_changed.wait()
                if running is not None:
                    running.cancel()

    async def _cycle(self) -> float:
        """One cycle; the seconds that its last attempt took. Waits only where something failed, until it is known what
        to leave out."""
        spent = 0.0
        for _ in range(_ATTEMPTS):
            started = time.perf_counter()
            self._feed.changed.clear()
            if not await self._restore():
                break
            now = self._env.clock.now()
            current = await self._look(now)
            if current is None:
                break
            if current is self._decided and now < self._look_again_at:
                return 0.0
            self._decided, snapshot = current, replace(current, now=now)
            self._metrics.snapshot_taken(time.perf_counter() - started)
            try:
                seen, decisions = self._quarantine.decide(snapshot, self._configuration, self._metrics.watch)
            except Exception as error:
                spent = time.perf_counter() - started
                self._look_again_at = now + self._options.schedule_period_seconds
                if not await self._found_culprits(snapshot, error, spent):
                    break
                self._look_again_at = now
                continue
            self._apply(seen, decisions)
            spent = time.perf_counter() - started
            self._metrics.decided(seen, decisions, spent)
            return spent
        return spent

    def _tell_metrics(self) -> None:
        """Of all that cycles do without. Also where nothing was decided: what can't be read may make no other
        snapshot."""
        unread = {*self._state.unread(), *self._feed.left_out}
        suspects = {Suspect(kind.__name__, key.name, key.namespace) for kind, key in unread}
        self._metrics.left_out(suspects.union(each.suspect for each in self._quarantine.offenders))

    async def _look(self, now: float) -> Snapshot | None:
        """The snapshot; None when there is none to be had, whatever is left out."""
        try:
            snapshot = self._state.snapshot(now)
        except Exception as error:
            _log.exception("the cluster can't be looked at")
            self._metrics.failed("snapshot")
            if await self._left_out_any(now, error):
                try:
                    return self._state.snapshot(now)
                except Exception:
                    _log.exception("the cluster still can't be looked at")
            _log.error("nothing is scheduled in this cycle")
            return None
        self._feed.looked_at()
        self._vain_looks, self._no_search_before = 0, 0.0
        return snapshot

    async def _left_out_any(self, now: float, error: Exception) -> bool:
        """Leaves out what the cluster can't be looked at with. What came in lately is suspected first; a search through
        everything isn't repeated at once when it was in vain."""
        if self._feed.leave_out_latest(now, error):
            return True
        if now < self._no_search_before:
            return False
        if await self._feed.leave_out_any(ClusterState(self._options.state()), now, error, self._rest):
            return True
        self._vain_looks += 1
        self._no_search_before = now + min(MOST_SECONDS, 10.0 * 2.0 ** min(self._vain_looks, 10))
        return False

    async def _restore(self) -> bool:
        """Whether what was remembered is taken over. Where the cluster can't be looked at, it can't be yet."""
        if not self._restored and await self._look(self._env.clock.now()) is not None:
            try:
                await self._applier.restore()
            except KubeError:
                raise
            except Exception:
                _log.exception("what was remembered can't be taken over yet")
                self._metrics.failed("snapshot")
                return False
            self._restored = True
        return self._restored

    def _apply(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self._look_again_at = decisions.look_again_at
        self._applier.apply(snapshot, decisions)
        if decisions.idle_actions != self._idle_actions:
            self._idle_actions = decisions.idle_actions
            if self._idle_actions:
                _log.warning("%s", about_idle_actions(self._idle_actions))
        for plugin, error in decisions.plugin_failures:
            _log.warning("plugin %s failed when the session closed: %s", plugin, error)

    async def _found_culprits(self, snapshot: Snapshot, error: Exception, spent: float) -> bool:
        """Whether it is known now what to leave out. The snapshot is recorded before anything else happens to the
        state."""
        _log.exception("a scheduling cycle failed")
        self._metrics.failed("decide")
        recorded = take(self._state, self._options.state(), self._configuration, snapshot.now)
        known = {each.suspect for each in self._quarantine.offenders}
        await self._rest(spent)
        found = await self._quarantine.investigate(snapshot, self._configuration, error)
        if found:
            is_news = any(each.suspect not in known for each in self._quarantine.offenders)
        else:
            _log.error("nothing is scheduled in this cycle: no job, node or queue was found without which it succeeds")
            place = f"{type(error).__name__} {failure_place(error)}"
            is_news = place not in self._failure_places
            self._failure_places.add(place)
        if is_news:
            self._evidence.append(recorded)
        return found

    async def _keep_evidence(self) -> None:
        """Once everything else is scheduled."""
        while self._evidence:
            path = await self._failed.keep(self._evidence.pop(0))
            if path is not None:
                _log.error("the snapshot that the scheduler failed on is in %s, for bosket replay", path)

    def _tell_left_out(self, offender: Offender, obj: KubeObject | None) -> None:
        if obj is not None:
            self._events.event(obj, "Warning", SCHEDULER_FAILED, offender.text)

    async def _wait_for_change(self) -> None:
        period = min(self._options.schedule_period_seconds, max(0.0, self._look_again_at - self._env.clock.now()))
        try:
            async with asyncio.timeout(period):
                await self._feed.changed.wait()
        except TimeoutError:
            pass  # time itself is a change


def _known(configuration: Configuration) -> Configuration:
    """What of it this version has; the rest is told of."""
    known, missing = known_part(configuration)
    if missing:
        _log.warning("the configuration names what this version doesn't have, and is without: %s", ", ".join(missing))
    return known


def rest_seconds(spent: float, least: float) -> float:
    """How long to rest after a cycle that took so long."""
    return max(least, 2 * spent, min(20 * spent, _UNNOTICED_SECONDS))


def service(env: Environment, options: Options | None = None) -> Scheduler:
    """The scheduler, ready to run in this environment."""
    return Scheduler(env, options or Options())
