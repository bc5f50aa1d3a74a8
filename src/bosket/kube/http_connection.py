"""Connection: HTTP/1.1 over one connection, with only what an API server needs.

`bosket.kube.http` pools connections and sends requests through them. A general client builds a dozen objects per
request and wakes a task for each chunk of a watch; in a service with hundreds of requests and thousands of watch events
a second, that was most of its CPU time. Here an answer that arrives in one piece is parsed in one call.

A connection carries one exchange at a time. Failures are raised as `OSError` or `TimeoutError`.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple, cast

#: The maximum size of a head, of a chunk-size line, and of trailers.
_LONGEST_HEAD: Final = 256 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"


class Broken(OSError):
    """The connection ended, or the data isn't HTTP."""


class Head(NamedTuple):
    """The beginning of an answer. Header names are lower-case; one that is there several times has all its values."""

    status: int
    headers: dict[str, str]
    is_last: bool  #: the server closes the connection after this answer


class Connection(asyncio.Protocol):
    """A connection to the server; made by `connect`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.is_closed = False
        #: whether any byte of the expected answer has arrived
        self.has_answered = False
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._streams = self._opens = self._is_head = False
        self._start()

    def _start(self) -> None:
        """Resets the state before an exchange."""
        self.head: Head | None = None
        self.has_answered = False
        self._unparsed = b""
        self._decode: Callable[[bytes], None] = self._decode_head
        self._body: list[bytes] = []
        self._left = 0  # of the body, or of the chunk
        self._inflate: zlib._Decompress | None = None
        self._is_complete = False

    # --- the caller's side

    async def ask(self, request: bytes, timeout_seconds: float) -> tuple[Head, bytes]:
        """Sends a request; returns the whole answer."""
        await self._send(request, timeout_seconds, streams=False)
        head = self.head
        assert head is not None
        return head, self._take()

    async def open(self, request: bytes, timeout_seconds: float) -> Head:
        """Sends a request; returns the beginning of the answer. Its body is `read` piece by piece."""
        await self._send(request, timeout_seconds, streams=True)
        assert self.head is not None
        return self.head

    async def read(self, timeout_seconds: float) -> bytes:
        """What has arrived of the body since the last call, at least a byte; nothing at its end."""
        while not self._body and not self._is_complete:
            if self._error is not None:
                raise self._error
            self.transport.resume_reading()
            await self._wait(timeout_seconds)
        return self._take()

    async def _send(self, request: bytes, timeout_seconds: float, *, streams: bool) -> None:
        if self.is_closed:
            raise self._error or Broken("the connection is closed")
        self._start()
        self._streams = self._opens = streams
        self._is_head = request.startswith(b"HEAD ")  # whose answer says how long a body would be, and has none
        self.transport.write(request)
        while not (self._is_complete or (streams and self.head is not None)):
            if self._error is not None:
                raise self._error
            await self._wait(timeout_seconds)
        self._opens = False

    async def _wait(self, timeout_seconds: float) -> None:
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout_seconds, self._time_out)
        try:
            await waiter
        except BaseException:
            self.transport.abort()  # otherwise the rest of the answer would be parsed as the next one
            raise
        finally:
            self._waiter = None
            timer.cancel()

    def _time_out(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    def _take(self) -> bytes:
        body, self._body = self._body, []
        return body[0] if len(body) == 1 else b"".join(body)

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the last answer is complete and the server keeps the connection open."""
        return self._is_complete and not self.is_closed and self.head is not None and not self.head.is_last

    # --- the event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_complete:  # nothing was asked for
            self.transport.abort()
            return
        self.has_answered = True
        try:
            self._decode(self._unparsed + data if self._unparsed else data)
        except (ValueError, zlib.error) as error:
            self._fail(Broken(f"the answer is malformed: {error}"))
            self.transport.abort()
        else:
            self._hand_out()

    def _hand_out(self) -> None:
        """Wakes the caller if there is data for it."""
        if self._is_complete:
            self._wake()
        elif self._streams and (self._body or (self._opens and self.head is not None)):
            # Back-pressure: the reader resumes when it wants more.
            self.transport.pause_reading()
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self.head is not None and not self._is_complete and self._decode == self._decode_to_the_end:
            self._complete()
            self._wake()
            return
        self._fail(exc or Broken("the server hung up"))

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- what an answer consists of

    def _decode_head(self, data: bytes) -> None:
        end = data.find(_END_OF_HEAD)
        if end < 0:
            self._keep(data)
            return
        self._unparsed = b""
        status_line, *lines = data[:end].decode("latin-1").split("\r\n")
        version, _, rest = status_line.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"{status_line[:80]!r} is no status line")
        status = int(rest[:3])
        if status < 200:  # the answer proper follows
            self._decode_head(data[end + 4 :])
            return
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"{line[:80]!r} is no header")
            key, value = name.lower(), value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        connection = headers.get("connection", "").lower()
        self.head = Head(
            status, headers, connection == "close" or (version == "HTTP/1.0" and connection != "keep-alive")
        )
        encoding = headers.get("content-encoding", "identity")
        if encoding != "identity":
            if encoding != "gzip":
                raise ValueError(f"content-encoding {encoding!r} was not asked for")
            self._inflate = zlib.decompressobj(wbits=31)
        self._begin_body(status, headers, data[end + 4 :])

    def _begin_body(self, status: int, headers: dict[str, str], data: bytes) -> None:
        if status in (204, 304) or self._is_head:
            self._inflate = None
            self._complete()
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self._decode = self._decode_size
            self._decode(data)
        elif "content-length" in headers:
            self._left = int(headers["content-length"])
            if self._left < 0:
                raise ValueError("content-length is negative")
            self._decode = self._decode_length
            self._decode(data)
        else:
            self._decode = self._decode_to_the_end
            self._decode(data)

    def _decode_length(self, data: bytes) -> None:
        if data:
            self._left -= len(data)
            if self._left < 0:
                raise ValueError("more arrived than content-length says")
            self._add(data)
        if self._left == 0:
            self._complete()

    def _decode_to_the_end(self, data: bytes) -> None:
        if data:
            self._add(data)

    def _decode_size(self, data: bytes) -> None:
        """Decodes complete chunks; `_left` is 0 here, so data begins with a chunk size."""
        position = 0
        while True:
            end = data.find(b"\r\n", position)
            if end < 0:
                self._keep(data[position:])
                return
            size = int(data[position:end].partition(b";")[0], 16)
            begin = end + 2
            if size == 0:
                self._unparsed = b""
                self._decode = self._decode_trailers
                self._decode(data[end:])
                return
            if len(data) < begin + size + 2:
                self._unparsed = b""
                self._left = size + 2
                self._decode = self._decode_chunk
                self._decode(data[begin:])
                return
            self._add(data[begin : begin + size])
            position = begin + size + 2

    def _decode_chunk(self, data: bytes) -> None:
        """The rest of a chunk whose end, with the line break behind it, hasn't arrived."""
        content = data[: max(0, self._left - 2)]
        if content:
            self._add(content)
        if len(data) < self._left:
            self._left -= len(data)
            return
        rest = data[self._left :]
        self._left = 0
        self._decode = self._decode_size
        self._decode(rest)

    def _decode_trailers(self, data: bytes) -> None:
        """`data` begins with the line break before the trailers."""
        if _END_OF_HEAD in data:
            self._unparsed = b""
            self._complete()
        else:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        if len(data) > _LONGEST_HEAD:
            raise ValueError(f"there is no end after {len(data)} bytes of headers")
        self._unparsed = data

    def _add(self, data: bytes) -> None:
        if self._inflate is None:
            self._body.append(data)
            return
        while data:
            # Kubernetes compresses the events of a watch that begins with the state one by one, each to its end.
            if self._inflate.eof:
                self._inflate = zlib.decompressobj(wbits=31)
            content = self._inflate.decompress(data)
            if content:
                self._body.append(content)
            data = self._inflate.unused_data

    def _complete(self) -> None:
        if self._inflate is not None:
            if not self._inflate.eof:
                raise ValueError("the compressed answer is cut off")
            self._inflate = None
        self._is_complete = True


async def connect(host: str, port: int, context: ssl.SSLContext | None, server_name: str | None) -> Connection:
    """A new connection; `context` None: without TLS. `server_name`: the name that the certificate must have."""
    loop = asyncio.get_running_loop()
    name = (server_name or host) if context is not None else None
    _, made = await loop.create_connection(Connection, host, port, ssl=context, server_hostname=name)
    return made
