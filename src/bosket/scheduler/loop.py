"""The scheduling loop, on one screen: wait for a change, take a snapshot, decide, apply.

A cycle starts as soon as something changed. The loop rests for at least twice as long as the last cycle took, so that a
cluster where everything changes all the time leaves room for the rest of the process.
"""

from __future__ import annotations

import asyncio
import logging
import time

from prometheus_client import Counter, Gauge

from bosket.runtime.service import Environment
from bosket.scheduler.cache.apply import Applier
from bosket.scheduler.cache.feed import Feed
from bosket.scheduler.decide import decide, make_plugins
from bosket.scheduler.options import Options
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.scheduler.snapshot.state import ClusterState, StateOptions

_log = logging.getLogger(__name__)


class Scheduler:
    """The scheduler as a service."""

    name = "scheduler"

    def __init__(self, env: Environment, options: Options) -> None:
        make_plugins(options.configuration)  # what is wrong with the configuration is said before anything starts
        self._env, self._options = env, options
        reading = StateOptions(
            options.scheduler_name, options.stuck_in_releasing_seconds, worker_labels=options.worker_labels
        )
        self._state = ClusterState(reading, report=_log.warning)
        self._feed = Feed(env.informers, self._state)
        self._applier = Applier(env, self._state, name=options.scheduler_name, changed=self._feed.changed.set)
        self._decided: Snapshot | None = None
        self._latency = Gauge(
            "kai_e2e_scheduling_latency_milliseconds", "CPU and waiting of the last cycle", registry=env.metrics
        )
        self._binds = Counter("kai_bind_requests", "Bind requests decided on", registry=env.metrics)

    async def run(self) -> None:
        self._decided = None
        async with asyncio.TaskGroup() as group:
            group.create_task(self._applier.run())
            await self._feed.wait_synced()
            while True:
                await self._wait_for_change()
                spent = self._cycle()
                await self._env.clock.sleep(max(self._options.least_pause_seconds, 2 * spent))

    def _cycle(self) -> float:
        started = time.perf_counter()
        self._feed.changed.clear()
        snapshot = self._state.snapshot(self._env.clock.now())
        if snapshot is self._decided:
            return 0.0
        decisions = decide(snapshot, self._options.configuration)
        self._decided = snapshot
        self._applier.apply(snapshot, decisions)
        spent = time.perf_counter() - started
        self._latency.set(spent * 1000)
        self._binds.inc(len(decisions.binds))
        return spent

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(self._options.schedule_period_seconds):
                await self._feed.changed.wait()
        except TimeoutError:
            pass  # time itself is a change


def service(env: Environment, options: Options | None = None) -> Scheduler:
    """The scheduler, ready to run in this environment."""
    return Scheduler(env, options or Options())
