"""LiveUsage: fetches usage in the background and puts it into the live state.

The store is asked every fetchInterval, with a time-out. While it doesn't answer, the last answer stays in force,
however old, and the interval backs off. No failure reaches the scheduler: it decides with what is known.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bosket.api.kai import Queue
from bosket.api.keys import METRICS_NAMESPACE
from bosket.api.time import format_duration
from bosket.runtime.service import Environment
from bosket.runtime.workqueue import Backoff
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.usage_parameters import Parameters, parameters_from
from bosket.scheduler.metrics.cycle import QueueLabels
from bosket.scheduler.model.usage import NO_USAGE
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.usage.history import sample_of
from bosket.scheduler.usage.metrics import UsageMetrics
from bosket.scheduler.usage.source import SampledSource, UsageSource, UsageUnavailable
from bosket.scheduler.usage.stores import open_source

_log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS: Final = 1.0


class LiveUsage:
    """Keeps the state's usage up to date while it runs."""

    def __init__(
        self,
        env: Environment,
        state: ClusterState,
        source: UsageSource,
        parameters: Parameters,
        metrics_namespace: str = METRICS_NAMESPACE,
    ) -> None:
        self._clock, self._state, self._source, self._parameters = env.clock, state, source, parameters
        interval = parameters.fetch_interval_seconds
        self._backoff = Backoff(min(_FIRST_RETRY_SECONDS, interval), interval)
        self._metrics = UsageMetrics(env.metrics, env.clock.now, self._queue_labels, metrics_namespace)
        self._usage = NO_USAGE
        self._answered = asyncio.Event()
        self._stale = False
        self._troubles: dict[str, str] = {}  # what doesn't work → why, as far as it was said

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                if isinstance(self._source, SampledSource):
                    await self._sample(self._source)
                    group.create_task(self._go_on_sampling(self._source))
                failures = 0
                while True:
                    failures = 0 if await self._fetch() else failures + 1
                    interval = self._parameters.fetch_interval_seconds
                    await self._clock.sleep(self._backoff.delay(failures) if failures else interval)
        finally:
            await self._source.aclose()

    def withdraw(self) -> None:
        """Another database, or none, takes its place: what this one said counts no more."""
        self._metrics.withdraw()
        self._state.put_usage(NO_USAGE)

    async def wait_first(self) -> None:
        """Until there is a first answer, but no longer than the waitTimeout."""
        try:
            async with asyncio.timeout(self._parameters.wait_seconds):
                await self._answered.wait()
        except TimeoutError:
            waited = format_duration(self._parameters.wait_seconds)
            _log.warning("the usage of queues is not known yet; scheduling without usage", extra={"waited": waited})

    async def _fetch(self) -> bool:
        """One question; whether it was answered."""
        now, started, timeout = self._clock.now(), self._clock.monotonic(), self._parameters.query_timeout_seconds
        try:
            async with asyncio.timeout(timeout):
                usage = await self._source.fetch(now)
        except Exception as error:
            self._metrics.failed()
            why = str(error) if isinstance(error, UsageUnavailable) else f"{type(error).__name__}: {error}"
            late = isinstance(error, TimeoutError)
            self._complain("asking what queues used", f"no answer within {format_duration(timeout)}" if late else why)
            self._watch_age()
            return False
        self._metrics.fetched(usage, self._clock.monotonic() - started)
        self._works("asking what queues used")
        self._usage, self._stale = usage, False
        self._state.put_usage(usage)
        self._answered.set()
        return True

    async def _go_on_sampling(self, source: SampledSource) -> None:
        while True:
            await self._clock.sleep(source.sample_interval_seconds)
            await self._sample(source)

    async def _sample(self, source: SampledSource) -> None:
        now = self._clock.now()
        try:
            await source.record(sample_of(self._state.snapshot(now), now))
        except Exception as error:
            why = str(error) if isinstance(error, UsageUnavailable) else f"{type(error).__name__}: {error}"
            self._complain("keeping what queues hold", why)
        else:
            self._works("keeping what queues hold")

    def _watch_age(self) -> None:
        as_of = self._usage.as_of
        if as_of is None or self._stale or self._clock.now() - as_of <= self._parameters.staleness_seconds:
            return
        self._stale = True
        age = format_duration(round(self._clock.now() - as_of))
        _log.warning("what is known of the use of queues is stale; it goes on to count", extra={"age": age})

    def _complain(self, what: str, why: str) -> None:
        """Says it once, not every minute."""
        if self._troubles.get(what) != why:
            self._troubles[what] = why
            _log.warning("%s failed; what was known before goes on to count", what, extra={"error": why})

    def _works(self, what: str) -> None:
        if self._troubles.pop(what, None) is not None:
            _log.info("%s works again", what)

    def _queue_labels(self) -> list[QueueLabels]:
        queues = (queue for queue in self._state.objects(Queue) if isinstance(queue, Queue))
        return [QueueLabels.of(queue.metadata.name, queue.spec.displayName or "") for queue in queues]


def live_usage(
    env: Environment,
    state: ClusterState,
    configuration: Configuration,
    source: UsageSource | None = None,
    metrics_namespace: str = METRICS_NAMESPACE,
) -> LiveUsage | None:
    """For a configuration with a usage database; raises `ConfigurationError` for one that can't be used.

    `source` takes the place of the store that the configuration names.
    """
    config = configuration.usage_db
    if config is None:
        return None
    parameters = parameters_from(config.usageParams)
    return LiveUsage(env, state, source or open_source(config), parameters, metrics_namespace)
