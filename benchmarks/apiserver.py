"""What the embedded API server costs: creations, bindings and patches of pods, and watch events, per second of CPU.

In process, as Bosket's services in `bosket up` speak to it, and over HTTPS; with few and many objects, few and many
watchers, with and without a data directory. The server is a process of its own (`apiserver_subject`): what clients
cost doesn't count. Promised: 1,000 creations over HTTPS per second of CPU, and writes that cost the same in a large
cluster.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from benchmarks.apiserver_subject import CLIENTS, OPERATIONS, PODS, TOKEN, Send, in_turns, operations
from benchmarks.process import cpu_seconds
from benchmarks.report import Column, Report, number, progress

SMALL, LARGE = 1_000, 50_000
PATIENCE_SECONDS = 120.0
PROMISED_CREATES = 1_000
PROMISED_QUOTIENT = 1.5

COLUMNS = (
    Column("where", "requests"),
    Column("storage", "storage"),
    Column("objects", "objects", number()),
    Column("watchers", "watchers", number()),
    Column("create", "creates/s", number()),
    Column("bind", "binds/s", number()),
    Column("patch", "patches/s", number()),
    Column("events", "events/s", number()),
    Column("create_us", "a create", number(unit=" µs")),
    Column("bytes_per_object", "memory per object", number(unit=" B")),
)


@dataclass(frozen=True)
class Setting:
    """How requests come, what is there already, and whether it is kept."""

    http: bool
    data: bool
    objects: int

    @property
    def watchers(self) -> tuple[int, ...]:
        """They see nothing of a data directory."""
        return (1,) if self.data else tuple(OPERATIONS)

    def __str__(self) -> str:
        return f"{self.where}, {self.storage}, {self.objects:,} objects"

    @property
    def where(self) -> str:
        return "HTTPS" if self.http else "in process"

    @property
    def storage(self) -> str:
        return "data directory" if self.data else "memory"

    def arguments(self, folder: str | None) -> list[str]:
        chosen = ["--listen"] if self.http else ["--watchers", ",".join(map(str, self.watchers))]
        return [str(self.objects), *chosen, *(("--data", folder) if folder else ())]


@dataclass
class Measured:
    """CPU seconds by number of watchers and operation, and what an object takes."""

    bytes_per_object: float = 0.0
    cpu_s: dict[tuple[int, str], float] = field(default_factory=dict)

    def rate(self, watchers: int, operation: str) -> float:
        return OPERATIONS[watchers] / self.cpu_s[watchers, operation]

    def events(self, watchers: int) -> float:
        spent = [seconds for (each, _), seconds in self.cpu_s.items() if each == watchers]
        return OPERATIONS[watchers] * watchers * len(spent) / sum(spent)


def run() -> Report:
    report = Report("The embedded API server, per second of its CPU", COLUMNS)
    creates: dict[Setting, float] = {}
    for http, data, objects in product((False, True), (False, True), (SMALL, LARGE)):
        setting = Setting(http, data, objects)
        progress(str(setting))
        measured = asyncio.run(measure(setting))
        creates[setting] = measured.rate(1, "create")
        for watchers in setting.watchers:
            rates = {operation: measured.rate(watchers, operation) for operation in ("create", "bind", "patch")}
            report.rows.append(
                {
                    "where": setting.where,
                    "storage": setting.storage,
                    "objects": objects,
                    "watchers": watchers,
                    **rates,
                    "events": measured.events(watchers),
                    "create_us": 1e6 / rates["create"],
                    "bytes_per_object": measured.bytes_per_object if watchers == 1 else None,
                }
            )
        if http:
            enough = creates[setting] >= PROMISED_CREATES
            report.expect(
                enough, f"{setting}: {creates[setting]:.0f} creates per second of CPU, not {PROMISED_CREATES}"
            )
        if objects == LARGE:
            quotient = creates[Setting(http, data, SMALL)] / creates[setting]
            report.expect(quotient < PROMISED_QUOTIENT, f"{setting}: a create costs {quotient:.2f} times as much")
    return report


async def measure(setting: Setting) -> Measured:
    measured = Measured()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory() if setting.data else nullcontext())
        server = await stack.enter_async_context(_subject(setting.arguments(folder)))
        measured.bytes_per_object = (await _said(server))["bytes_per_object"]
        if setting.http:
            said = await _said(server)
            for watchers in setting.watchers:
                await _measure_over_http(measured, watchers, said["port"], said["pid"])
        else:
            for watchers in setting.watchers:
                for operation in operations(watchers):
                    measured.cpu_s[watchers, operation] = (await _said(server))["cpu_s"]
    return measured


async def _measure_over_http(measured: Measured, watchers: int, port: int, pid: int) -> None:
    clients = _Clients(port)
    try:
        await clients.connect(watchers)
        for operation, requests in operations(watchers).items():
            before, seen = cpu_seconds(pid), clients.seen
            await in_turns(requests, clients.sends)
            await clients.until_seen(seen + len(requests) * watchers)
            measured.cpu_s[watchers, operation] = cpu_seconds(pid) - before
    finally:
        await clients.close()


@asynccontextmanager
async def _subject(arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.apiserver_subject", *arguments, stdin=pipe, stdout=pipe
    )
    try:
        yield server
        assert server.stdin is not None
        server.stdin.close()
        await server.communicate()
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def _said(server: asyncio.subprocess.Process) -> Any:
    assert server.stdout is not None
    line = await server.stdout.readline()
    assert line, "the server ended before it said what it should"
    return json.loads(line)


class _Clients:
    """Connections that cost little: requests are bytes, and what watches bring is counted and forgotten."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE  # loopback, for a moment
        self._writers: list[asyncio.StreamWriter] = []
        self._watching: list[asyncio.Task[None]] = []
        self.sends: list[Send] = []
        self.seen = 0
        self._more = asyncio.Event()

    async def connect(self, watchers: int) -> None:
        for _ in range(watchers):
            reader, writer = await self._open()
            query = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
            writer.write(_head("GET", f"{PODS}?{query}", b"", "application/json"))
            await reader.readuntil(b"\r\n\r\n")
            self._watching.append(asyncio.create_task(self._count(reader)))
        for _ in range(CLIENTS):
            self.sends.append(_sender(*await self._open()))

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
        self._writers.append(writer)
        return reader, writer

    async def _count(self, reader: asyncio.StreamReader) -> None:
        last = b""
        while chunk := await reader.read(1 << 20):
            self.seen += (last + chunk).count(b"}\n")  # ends an event, and nothing else here
            last = chunk[-1:]
            self._more.set()

    async def until_seen(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.seen < count:
                self._more.clear()
                await self._more.wait()

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()


def _sender(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Send:
    async def send(method: str, path: str, body: bytes, content_type: str) -> None:
        writer.write(_head(method, path, body, content_type) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        answer = await reader.readexactly(int(length.partition(b":")[2]))
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
            raise RuntimeError(f"{method} {path}: {answer.decode()}")

    return send


def _head(method: str, path: str, body: bytes, content_type: str) -> bytes:
    lines = (
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {TOKEN}",
        "User-Agent: benchmark/1",
        "Accept: application/json",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n"
