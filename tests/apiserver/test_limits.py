"""What the network listener bears: sizes, numbers and patience are bounded, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bosket.apiserver import ApiServer
from bosket.apiserver.http.connection import MAX_LINE_BYTES
from bosket.apiserver.http.listener import DEFAULT_LIMITS, Limits, serve
from bosket.apiserver.request.resource_request import User
from bosket.runtime.clock import SystemClock
from tests.apiserver.world import CONFIG_MAPS, PODS, config_map

TOKEN = "token-of-the-administrator"
MIB = 1024 * 1024


class Wire:
    """A connection on which a test writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}"]
        if "Transfer_Encoding" not in headers:
            headers.setdefault("Content_Length", str(len(body)))
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        async with asyncio.timeout(120):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, json.loads(body) if "json" in headers["content-type"] else body

    async def received(self) -> int:
        """How much the server still says before it ends the connection."""
        size = 0
        async with asyncio.timeout(120):
            with suppress(ConnectionResetError):
                while chunk := await self.reader.read(65536):
                    size += len(chunk)
        return size

    async def ended(self) -> bool:
        """Whether the server ends the connection; it may say something before."""
        return await self.received() >= 0


Connect = Callable[[], Awaitable[Wire]]


@asynccontextmanager
async def listening(limits: Limits = DEFAULT_LIMITS) -> AsyncIterator[Connect]:
    """A listener with such limits, and a way to connect to it."""
    users = {TOKEN: User("admin", ("system:masters",))}
    listener = await serve(ApiServer(clock=SystemClock()), tokens=users, limits=limits)
    wires: list[Wire] = []

    async def connect() -> Wire:
        wires.append(Wire(*await asyncio.open_connection("127.0.0.1", listener.port)))
        return wires[-1]

    try:
        yield connect
    finally:
        for wire in wires:
            wire.writer.transport.abort()
        await listener.aclose()


async def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    async with listening() as connect:
        wire = await connect()
        await wire.send("POST", CONFIG_MAPS, Content_Length=str(4 * MIB))
        status, _, body = await wire.answer()
        assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
        assert await wire.ended()


async def test_a_body_that_grows_too_large_is_read_no_further() -> None:
    async with listening() as connect:
        wire = await connect()
        chunk = b"%x\r\n%s\r\n" % (MIB, b"x" * MIB)
        await wire.send("POST", CONFIG_MAPS, chunk * 4, Transfer_Encoding="chunked")
        assert (await wire.answer())[0] == 413
        bomb = gzip.compress(json.dumps(config_map("a", {"k": "x" * 4 * MIB})).encode())
        assert len(bomb) < MIB
        wire = await connect()
        await wire.send("POST", CONFIG_MAPS, bomb, Content_Encoding="gzip", Content_Type="application/json")
        assert (await wire.answer())[0] == 413


async def test_bodies_of_all_clients_together_are_bounded() -> None:
    async with listening(Limits(bodies_bytes=3000)) as connect:
        slow = [await connect() for _ in range(2)]
        for wire in slow:
            await wire.send("POST", CONFIG_MAPS, b" " * 1400, Content_Length="2000")
        await (await settled(connect)).send("GET", "/readyz")
        late = await connect()
        await late.send("POST", CONFIG_MAPS, b" " * 1000)
        status, headers, body = await late.answer()
        assert (status, body["reason"], headers["retry-after"]) == (429, "TooManyRequests", "1")


async def settled(connect: Connect) -> Wire:
    """A connection that was answered: what others sent before has been read."""
    wire = await connect()
    for _ in range(3):
        await wire.send("GET", "/readyz")
        await wire.answer()
    return wire


@pytest.mark.parametrize("what", ["header", "url"])
async def test_headers_and_urls_that_are_too_long_are_refused(what: str) -> None:
    async with listening() as connect:
        wire = await connect()
        long = "x" * (2 * MAX_LINE_BYTES)
        if what == "header":
            await wire.send("GET", PODS, X_Long=long)
        else:
            await wire.send("GET", f"{PODS}?labelSelector={long}")
        status, _, body = await wire.answer()
        assert (status, body["kind"], body["reason"]) == (431, "Status", "RequestHeaderFieldsTooLarge")
        assert await wire.ended()


async def test_what_is_no_http_is_refused_with_a_status() -> None:
    async with listening() as connect:
        wire = await connect()
        wire.writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        status, _, body = await wire.answer()
        assert (status, body["reason"]) == (400, "BadRequest")
        assert "not valid HTTP" in body["message"]


async def test_too_many_at_once_are_asked_to_come_back_and_watches_do_not_count() -> None:
    async with listening(Limits(in_flight=2)) as connect:
        for _ in range(3):
            watch = await connect()
            await watch.send("GET", f"{PODS}?watch=true")
            async with asyncio.timeout(120):
                await watch.reader.readuntil(b"\r\n\r\n")
        for _ in range(2):
            await (await connect()).send("POST", CONFIG_MAPS, b"{", Content_Length="100")
        late = await connect()
        status = 0
        while status != 429:  # as soon as the others have been read
            await late.send("GET", PODS)
            status, headers, body = await late.answer()
        assert (headers["retry-after"], body["reason"]) == ("1", "TooManyRequests")
        assert body["details"]["retryAfterSeconds"] == 1


async def test_a_client_that_does_not_send_its_body_is_not_waited_for_forever() -> None:
    async with listening(Limits(seconds=0.05)) as connect:
        wire = await connect()
        await wire.send("POST", CONFIG_MAPS, b"{", Content_Length="100")
        status, _, body = await wire.answer()
        assert (status, body["reason"]) == (504, "Timeout")
        assert await wire.ended()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
async def test_a_client_that_does_not_send_its_headers_is_let_go(sent: bytes) -> None:
    async with listening(Limits(header_seconds=0.05)) as connect:
        wire = await connect()
        wire.writer.write(sent)
        assert await wire.ended()


async def test_a_client_that_does_not_take_its_answer_is_let_go() -> None:
    async with listening(Limits(seconds=0.2)) as connect:
        wire = await connect()
        for index in range(12):
            body = json.dumps(config_map(f"c{index}", {"k": "x" * MIB})).encode()
            await wire.send("POST", CONFIG_MAPS, body, Content_Type="application/json")
            assert (await wire.answer())[0] == 201
        greedy = await connect()
        greedy.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await greedy.send("GET", CONFIG_MAPS)
        await asyncio.sleep(0.5)  # longer than the server waits
        greedy.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await greedy.received() < 12 * MIB


async def test_more_connections_than_there_may_be_are_closed() -> None:
    async with listening(Limits(connections=3)) as connect:
        first = [await settled(connect) for _ in range(3)]
        assert await (await connect()).ended()
        await first[0].send("GET", "/readyz")
        assert (await first[0].answer())[0] == 200
