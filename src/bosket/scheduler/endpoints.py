"""Local pages of the running scheduler: what the configured `Endpoint` plugins answer over HTTP on this machine.

They also answer in a process that waits for the lease, because its live state is as complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import msgspec

from bosket.runtime.local_server import Answer, Page
from bosket.runtime.service import Environment
from bosket.scheduler.answers.job_table import JobReport, job_rows
from bosket.scheduler.answers.queue_view import queue_report
from bosket.scheduler.answers.turn_order import OrderReport, turn_order
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, make_plugins, open_session
from bosket.scheduler.framework.endpoint import Endpoint, Insight
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.verdict import VerdictMemory
from bosket.scheduler.options import Options
from bosket.scheduler.plugins.snapshot import Snapshot as SnapshotEndpoint
from bosket.scheduler.recording.recorded import Recorded
from bosket.scheduler.recording.writer import take
from bosket.scheduler.state.cluster_state import ClusterState

_NOT_YET = Answer(b"the scheduler has not seen the whole cluster yet\n", "text/plain", 503)
_BUSY = Answer(b"another report is being made; ask again in 2 s\n", "text/plain", 503, retry_after_seconds=2)


def add_endpoints(
    env: Environment, state: ClusterState, options: Options, configuration: Configuration
) -> frozenset[str]:
    """Adds a page for each configured plugin that has one; raises ConfigurationError for a plugin that can't be had.

    Returns the paths of the pages.

    `configuration` is what the scheduler follows of that in the options; snapshots carry it, so that their replay does
    what the scheduler did.
    """

    def record() -> Recorded:
        return take(state, options.state(), configuration, env.clock.now())

    def fresh_session() -> Session:
        # With a verdict memory of its own: the page may use the session in a thread, and the loop's memory is for one.
        snapshot = replace(state.snapshot(env.clock.now()), memory=VerdictMemory())
        return open_session(snapshot, configuration)

    insight = Insight(env.client, record, fresh_session)
    endpoints = [plugin for plugin in make_plugins(configuration) if isinstance(plugin, Endpoint)]
    paths = {endpoint.path for endpoint in endpoints}
    for endpoint in endpoints:
        env.local_pages.add(endpoint.path, _page(env, endpoint, insight))
    if SnapshotEndpoint.path in paths:  # whoever may have everything may have these, too

        def fresh_snapshot() -> Snapshot:
            now = env.clock.now()  # the state's own snapshot keeps its time while nothing changes
            return replace(state.snapshot(now), now=now, memory=VerdictMemory())

        reports = _ReportPages(env, fresh_snapshot, configuration)
        for path in _REPORTS:
            env.local_pages.add(path, partial(reports.answer, path))
            paths.add(path)
    return frozenset(paths)


def _queues(snapshot: Snapshot, configuration: Configuration) -> msgspec.Struct:
    return queue_report(snapshot, configuration)


def _jobs(snapshot: Snapshot, configuration: Configuration) -> msgspec.Struct:
    return JobReport.of(job_rows(snapshot, _placed(snapshot, configuration), snapshot.now))


def _order(snapshot: Snapshot, configuration: Configuration) -> msgspec.Struct:
    turns = turn_order(snapshot, configuration, _placed(snapshot, configuration))
    return OrderReport(turns, len(turns))


def _placed(snapshot: Snapshot, configuration: Configuration) -> Decisions:
    """The decisions of a cycle that only places: a search for victims may take minutes, and a request has no budget."""
    return decide(snapshot, configuration, proposals={})


Report = Callable[[Snapshot, Configuration], msgspec.Struct]
#: What `bosket queues`, `jobs` and `order` print with --json, by path.
_REPORTS: Final[dict[str, Report]] = {"/queues": _queues, "/jobs": _jobs, "/order": _order}


class _ReportPages:
    """The pages of the reports. One report at a time is made, whatever its path: each takes a thread and much memory.

    Further requests for the same path get the same answer; for other paths they are told to ask again.
    """

    def __init__(self, env: Environment, snapshot: Callable[[], Snapshot], configuration: Configuration) -> None:
        self._env, self._snapshot, self._configuration = env, snapshot, configuration
        self._path = ""  # of the report that is being made
        self._running: asyncio.Task[Answer] | None = None

    async def answer(self, path: str) -> Answer:
        """The report of a path, as JSON."""
        if not self._env.informers.synced:
            return _NOT_YET
        if self._running is None:
            self._path, self._running = path, asyncio.create_task(self._make(_REPORTS[path]))
        elif self._path != path:
            return _BUSY
        # A request that is cancelled doesn't end the report: its thread goes on, and no other may begin beside it.
        return await asyncio.shield(self._running)

    async def _make(self, report: Report) -> Answer:
        try:
            return await asyncio.to_thread(_encoded, report, self._snapshot(), self._configuration)
        finally:
            self._running = None


def _encoded(report: Report, snapshot: Snapshot, configuration: Configuration) -> Answer:
    return Answer(msgspec.json.encode(report(snapshot, configuration)) + b"\n")


def _page(env: Environment, endpoint: Endpoint, insight: Insight) -> Page:
    one_at_a_time = asyncio.Lock()  # each holds much in memory

    async def page() -> Answer:
        async with one_at_a_time:
            return await endpoint.answer(insight) if env.informers.synced else _NOT_YET

    return page
