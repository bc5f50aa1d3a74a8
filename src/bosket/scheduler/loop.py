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

from bosket.runtime.service import Environment
from bosket.scheduler.cache.apply import Applier
from bosket.scheduler.cache.feed import Feed
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.endpoints import add_endpoints
from bosket.scheduler.metrics import SchedulerMetrics
from bosket.scheduler.options import Options
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.scheduler.snapshot.state import ClusterState
from bosket.scheduler.usage.live import live_usage

_log = logging.getLogger(__name__)

#: Nobody minds that a pod is placed so much later.
_UNNOTICED_SECONDS = 0.1


class Scheduler:
    """The scheduler as a service."""

    name = "scheduler"

    def __init__(self, env: Environment, options: Options) -> None:
        self._env, self._options = env, options
        self._configuration, missing = known_part(options.configuration)
        if missing:
            _log.warning(
                "the configuration names what this version doesn't have, and is without: %s", ", ".join(missing)
            )
        seen = options.state()
        self._state = ClusterState(seen, report=_log.warning)
        self._feed = Feed(env.informers, self._state, in_shard=seen.in_shard, budgets=not options.evict_by_deletion)
        self._metrics = SchedulerMetrics(env.metrics, self._configuration, options.metrics_namespace)
        self._applier = Applier(
            env,
            self._state,
            options,
            changed=self._feed.changed.set,
            evicted=self._metrics.evicted,
            requested=self._metrics.requested,
        )
        self._decided: Snapshot | None = None
        self._look_again_at = math.inf
        self._usage = live_usage(env, self._state, self._configuration, options.usage_source, options.metrics_namespace)
        self.lease_name = options.lease_name
        # Makes the plugins: what is wrong with the configuration is said before anything starts.
        add_endpoints(env, self._state, options, self._configuration)

    async def run(self) -> None:
        self._decided = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._applier.run())
            await self._feed.follow_devices(self._env.client)
            await self._feed.wait_synced()
            if self._usage is not None:
                group.create_task(self._usage.run())
                await self._usage.wait_first()
            while True:
                await self._wait_for_change()
                spent = self._cycle()
                await self._env.clock.sleep(rest_seconds(spent, self._options.least_pause_seconds))

    def _cycle(self) -> float:
        started = time.perf_counter()
        self._feed.changed.clear()
        now = self._env.clock.now()
        current = self._state.snapshot(now)
        if current is self._decided and now < self._look_again_at:
            return 0.0
        self._decided, snapshot = current, replace(current, now=now)
        self._metrics.snapshot_taken(time.perf_counter() - started)
        decisions = decide(snapshot, self._configuration, self._metrics.watch)
        self._look_again_at = decisions.look_again_at
        self._applier.apply(snapshot, decisions)
        spent = time.perf_counter() - started
        self._metrics.decided(snapshot, decisions, spent)
        return spent

    async def _wait_for_change(self) -> None:
        period = min(self._options.schedule_period_seconds, max(0.0, self._look_again_at - self._env.clock.now()))
        try:
            async with asyncio.timeout(period):
                await self._feed.changed.wait()
        except TimeoutError:
            pass  # time itself is a change


def rest_seconds(spent: float, least: float) -> float:
    """How long to rest after a cycle that took so long."""
    return max(least, 2 * spent, min(20 * spent, _UNNOTICED_SECONDS))


def service(env: Environment, options: Options | None = None) -> Scheduler:
    """The scheduler, ready to run in this environment."""
    return Scheduler(env, options or Options())
