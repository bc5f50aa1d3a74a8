"""HTTP/1.1 as it arrives: answers cut anywhere, of every framing, and what isn't HTTP."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from bosket.kube.http_connection import Broken, Connection, connect
from tests.kube.streams import talking

ASKED = b"GET /x HTTP/1.1\r\n\r\n"
PATIENCE_SECONDS = 30.0
BODY = b'{"kind":"Pod"}\n' * 3
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(content: bytes, size: int) -> bytes:
    pieces = [content[begin : begin + size] for begin in range(0, len(content), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: 1\r\n\r\n"


def with_length(content: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(content), more) + content


class Wire(asyncio.Transport):
    """What a connection writes to and is paused by; bytes are fed by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.paused = self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def abort(self) -> None:
        self.aborted = True


def wired() -> tuple[Connection, Wire]:
    connection, wire = Connection(), Wire()
    connection.connection_made(wire)
    return connection, wire


async def answer_in(pieces: Iterable[bytes], *, then_closed: bool = False) -> tuple[int, dict[str, str], bytes]:
    """What a request gets when these arrive one after the other."""
    connection, _ = wired()
    asking = asyncio.create_task(connection.ask(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
    if then_closed:
        connection.connection_lost(None)
    head, body = await asking
    return head.status, head.headers, body


@pytest.mark.parametrize(
    "answer",
    [
        with_length(BODY),
        CHUNKED + chunks(BODY, 7),
        CHUNKED + chunks(BODY, 1000),
        b"HTTP/1.1 100 Continue\r\n\r\n" + with_length(BODY),
        with_length(gzip.compress(BODY), b"Content-Encoding: gzip\r\n"),
        with_length(b"".join(map(gzip.compress, BODY.splitlines(keepends=True))), b"Content-Encoding: gzip\r\n"),
    ],
    ids=["length", "chunks", "one chunk", "after a 100", "compressed", "compressed one by one"],
)
async def test_an_answer_may_be_cut_anywhere(answer: bytes) -> None:
    for cut in range(1, len(answer)):
        status, _, body = await answer_in([answer[:cut], answer[cut:]])
        assert (status, body) == (200, BODY), f"cut at {cut}"
    _, _, body = await answer_in(answer[each : each + 1] for each in range(len(answer)))
    assert body == BODY


async def test_headers_have_lower_case_names_and_all_their_values() -> None:
    _, headers, _ = await answer_in([with_length(b"", b"Warning: one\r\nWARNING: two\r\nRetry-After:  7 \r\n")])
    assert headers == {"content-length": "0", "warning": "one, two", "retry-after": "7"}


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    assert (await answer_in([b"HTTP/1.0 200 OK\r\n\r\nab", b"c"], then_closed=True))[2] == b"abc"


async def test_an_answer_without_a_body_is_complete_at_once() -> None:
    assert await answer_in([b"HTTP/1.1 204 No Content\r\n\r\n"]) == (204, {}, b"")


async def test_the_answer_to_head_has_no_body_whatever_its_headers_say() -> None:
    connection, _ = wired()
    asking = asyncio.create_task(connection.ask(b"HEAD /x HTTP/1.1\r\n\r\n", PATIENCE_SECONDS))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Encoding: gzip\r\n\r\n")
    head, body = await asking
    assert (head.headers["content-length"], body) == ("7", b"")
    assert connection.is_reusable


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
        CHUNKED + b"nonsense\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000,
    ],
)
async def test_what_is_not_http_breaks_the_connection(answer: bytes) -> None:
    connection, wire = wired()
    asking = asyncio.create_task(connection.ask(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    connection.data_received(answer)
    with pytest.raises(Broken, match="malformed"):
        await asking
    assert wire.aborted
    assert not connection.is_reusable


@pytest.mark.parametrize(
    ("answer", "reusable"),
    [
        (with_length(b"a"), True),
        (with_length(b"a", b"Connection: close\r\n"), False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", True),
    ],
)
async def test_a_connection_is_used_again_where_the_server_keeps_it(answer: bytes, reusable: bool) -> None:
    connection, _ = wired()
    asking = asyncio.create_task(connection.ask(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    connection.data_received(answer)
    await asking
    assert connection.is_reusable is reusable


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    connection, wire = wired()
    asking = asyncio.create_task(connection.ask(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    connection.data_received(with_length(b"a"))
    await asking
    connection.data_received(with_length(b"another"))
    assert wire.aborted


async def test_who_stops_waiting_leaves_no_answer_for_the_next_one() -> None:
    connection, wire = wired()
    asking = asyncio.create_task(connection.ask(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert wire.aborted


# --- streams


async def opened() -> tuple[Connection, Wire]:
    connection, wire = wired()
    opening = asyncio.create_task(connection.open(ASKED, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    connection.data_received(CHUNKED)
    assert (await opening).status == 200
    return connection, wire


async def test_a_stream_is_read_as_it_arrives_and_no_faster_than_its_reader() -> None:
    connection, wire = await opened()
    reading = asyncio.create_task(connection.read(PATIENCE_SECONDS))
    await asyncio.sleep(0)
    assert not wire.paused
    connection.data_received(b"3\r\nab")
    assert await reading == b"ab"
    assert wire.paused  # until more is asked for
    reading = asyncio.create_task(connection.read(PATIENCE_SECONDS))  # type: ignore[unreachable]
    await asyncio.sleep(0)
    assert not wire.paused
    connection.data_received(b"\n\r\n2\r\ncd\r\n0\r\n\r\n")
    assert await reading == b"\ncd"
    assert await connection.read(PATIENCE_SECONDS) == b""


async def test_a_stream_that_breaks_gives_what_arrived_first() -> None:
    connection, _ = await opened()
    connection.data_received(b"2\r\nab\r\n")
    connection.connection_lost(None)
    assert await connection.read(PATIENCE_SECONDS) == b"ab"
    with pytest.raises(Broken, match="hung up"):
        await connection.read(PATIENCE_SECONDS)


@pytest.mark.looptime
async def test_a_stream_on_which_nothing_arrives_times_out(looptime: float) -> None:
    connection, wire = await opened()
    with pytest.raises(TimeoutError):
        await connection.read(7.0)
    assert wire.aborted


# --- a real socket


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    """Answers each request with its own head."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(with_length(await reader.readuntil(b"\r\n\r\n")))

    async with talking(talk) as port:
        yield port


async def test_several_requests_share_a_connection() -> None:
    async with echo_server() as port:
        connection = await connect("127.0.0.1", port, None, None)
        for _ in range(3):
            assert (await connection.ask(ASKED, PATIENCE_SECONDS))[1] == ASKED
        connection.transport.abort()
        await asyncio.sleep(0)
        with pytest.raises(Broken):
            await connection.ask(ASKED, PATIENCE_SECONDS)
