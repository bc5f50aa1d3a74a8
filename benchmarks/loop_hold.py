"""How long one request keeps all others waiting: the longest time between two turns of the API server's event loop.

`python -m benchmarks hold`: the requests of `benchmarks.poison` are sent to servers in this process, each to one of
its own. A task beside them takes its turn as often as it can; what the process computes between two of them is what
everybody else had to wait for, whichever thread computed it.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable

from benchmarks.poison import Asked, Poison, pod, poisons
from benchmarks.report import Column, Report, number, progress
from bosket.apiserver import ApiServer
from bosket.kube.transport import Request, Stream
from bosket.runtime.clock import SystemClock

#: CPU seconds for which a request may hold the loop: one of up to a megabyte, and each megabyte of a larger one.
LIMIT_SECONDS_PER_MB = 0.1
_USER_AGENT = {"user-agent": "benchmark/1"}


class Turns:
    """Takes turns on the loop and remembers the longest that it waited, in CPU seconds of the whole process."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self.count = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Turns:
        self._task = asyncio.create_task(self._take())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        await asyncio.sleep(0)  # the last wait counts, too
        await asyncio.sleep(0)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _take(self) -> None:
        before = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            self.longest_seconds = max(self.longest_seconds, now - before)
            self.count += 1
            before = now


def request_of(asked: Asked) -> Request:
    headers = {**_USER_AGENT, "content-type": asked.content_type}
    if asked.accept:
        headers["accept"] = asked.accept
    return Request(asked.method, asked.path, asked.query, headers, asked.encoded())


def fill(server: ApiServer, pods: int) -> None:
    """Put pods into the store as they would be after creation, without the cost of it."""
    kind = server.registry.at("", "pods")
    assert kind is not None
    strategy = kind.versions["v1"].strategy
    for index in range(pods):
        doc = pod(f"pod-{index:06d}", {"namespace": "default", "uid": f"u{index}", "labels": {"team": "ab"[index % 2]}})
        doc["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
        doc["status"] = {"phase": "Running"}
        doc["spec"] |= {"nodeName": f"node-{index % 100}", "tolerations": [{"key": "k", "operator": "Exists"}]}
        strategy.default(doc)
        kind.objects.insert(doc)


async def measure(poison: Poison) -> dict[str, object]:
    """One row: the request's size, what it cost, and the longest time for which it held the loop."""
    server = ApiServer(clock=SystemClock())
    transport = server.transport()
    await transport.request(Request("GET", "/api/v1/namespaces"))
    fill(server, poison.pods)
    for asked in poison.before():
        answer = await transport.request(request_of(asked))
        if answer.status not in (200, 201):
            raise RuntimeError(f"{poison.name}: {asked.method} {asked.path}: {answer.body[:300].decode()}")
    watches = [asyncio.create_task(_read(await transport.stream(_watch()))) for _ in range(poison.watchers)]
    await asyncio.sleep(0)
    request = request_of(poison.asked())
    running = asyncio.create_task(server.run())
    await asyncio.sleep(0)
    gc.collect()
    begin = time.process_time()
    async with Turns() as turns:
        answer = await transport.request(request)
        answered = time.process_time() - begin
        for _ in range(20):  # what it brought about is done behind the answer
            await asyncio.sleep(0)
    for task in (*watches, running):
        task.cancel()
    await asyncio.wait([*watches, running])
    size_mb = len(request.body) / 1e6
    hold = turns.longest_seconds
    return {
        "request": poison.name,
        "status": answer.status,
        "mb": size_mb,
        "cpu_s": answered,
        "hold_s": hold,
        "hold_s_per_mb": hold / max(1.0, size_mb),
        "turns": turns.count,
    }


def _watch() -> Request:
    return Request("GET", "/api/v1/namespaces/default/pods", (("watch", "true"), ("timeoutSeconds", "600")))


async def _read(stream: Stream) -> None:
    async for _ in stream:
        pass


def run(selected: Iterable[Poison] | None = None) -> Report:
    columns = (
        Column("request", "request"),
        Column("status", "answer", number()),
        Column("mb", "MB", number(1)),
        Column("cpu_s", "CPU", number(2, " s")),
        Column("hold_s", "longest hold", number(3, " s")),
        Column("hold_s_per_mb", "per MB", number(3, " s")),
    )
    report = Report("How long one request holds the API server's loop (CPU)", columns)
    for poison in poisons() if selected is None else selected:
        row = asyncio.run(measure(poison))
        progress(f"{row['hold_s']:.3f} s {poison.name} ({row['status']}, {row['cpu_s']:.2f} s)")
        report.rows.append(row)
        held = float(str(row["hold_s_per_mb"]))
        report.expect(held <= LIMIT_SECONDS_PER_MB, f"{poison.name}: {held:.2f} s per MB, not {LIMIT_SECONDS_PER_MB}")
    return report
