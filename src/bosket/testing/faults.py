"""A transport that fails on purpose, for tests of everything that talks to an API server.

`FaultyTransport` stands between a client and its real transport. A script of faults says which requests go wrong, and
how; `Chaos` adds faults at random from a seed. The important distinction is *when*: a request may fail before it took
effect, or after, when only the answer was lost.

    transport = FaultyTransport(server.transport())
    transport.add(hang_up(matching("POST", "/binding"), after_effect=True))   # bound, but the binder never hears of it
    transport.add(refuse(matching("PATCH"), 503, nth=2, times=3))             # the 2nd, 3rd and 4th patch
    transport.add(cut(matching(path="/pods"), after_events=10))               # a watch of pods breaks off
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from bosket.api.object import Status
from bosket.kube.errors import TransportError
from bosket.kube.retry import LoopSleeper, Sleeper
from bosket.kube.transport import Request, Response, Stream, Transport

Predicate = Callable[[Request], bool]


def matching(method: str | None = None, path: str = "") -> Predicate:
    """Requests of this method whose path contains this text."""
    return lambda request: (method is None or request.method == method) and path in request.path


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong. Made by `refuse`, `hang_up`, `cut` and `delay`."""

    when: Predicate
    #: The first matching request that it strikes, counted from 1, and how many from there on; None: all of them.
    nth: int = 1
    times: int | None = 1
    #: The answer given instead of the real one; None: no answer at all, unless only delayed or cut.
    answer: Response | None = None
    fails: bool = True
    #: The request reaches the server before it fails.
    after_effect: bool = False
    delay_seconds: float = 0.0
    #: A stream ends after so many events; the next one breaks off in its middle, unless the end is clean.
    cut_after_events: int | None = None
    cleanly: bool = False
    #: How often it struck.
    struck: int = 0
    _seen: int = 0

    def strikes(self, request: Request) -> bool:
        """Whether this request is one of those meant; counts."""
        if not self.when(request):
            return False
        self._seen += 1
        if self._seen < self.nth or (self.times is not None and self._seen >= self.nth + self.times):
            return False
        self.struck += 1
        return True


def refuse(
    when: Predicate,
    status: int = 503,
    *,
    reason: str = "",
    message: str = "injected",
    retry_after_seconds: int | None = None,
    nth: int = 1,
    times: int | None = 1,
    after_effect: bool = False,
) -> Fault:
    """The request is answered with an error status."""
    body = msgspec.json.encode(Status(status="Failure", code=status, reason=reason, message=message))
    headers = {"content-type": "application/json"}
    if retry_after_seconds is not None:
        headers["retry-after"] = str(retry_after_seconds)
    return Fault(when, nth, times, answer=Response(status, headers, body), after_effect=after_effect)


def hang_up(when: Predicate, *, nth: int = 1, times: int | None = 1, after_effect: bool = False) -> Fault:
    """The connection breaks: before the request arrived, or, `after_effect`, before its answer did."""
    return Fault(when, nth, times, after_effect=after_effect)


def cut(when: Predicate, *, after_events: int, cleanly: bool = False, nth: int = 1, times: int | None = 1) -> Fault:
    """A watch breaks off after so many events; `cleanly`: as if the server had ended it."""
    return Fault(when, nth, times, fails=False, cut_after_events=after_events, cleanly=cleanly)


def delay(when: Predicate, seconds: float, *, nth: int = 1, times: int | None = None) -> Fault:
    """The request waits before it is sent."""
    return Fault(when, nth, times, fails=False, delay_seconds=seconds)


@dataclass(slots=True)
class Chaos:
    """Faults at random. Rates are probabilities per request, `cut_rate` per chunk of a stream."""

    seed: int
    refuse_rate: float = 0.0
    hang_up_rate: float = 0.0
    lost_answer_rate: float = 0.0
    cut_rate: float = 0.0
    longest_delay_seconds: float = 0.0
    when: Predicate = field(default=lambda _request: True)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - repeatable is the point

    def pick(self, request: Request) -> Fault | None:
        """The fault for this request, if any."""
        if not self.when(request):
            return None
        dice, pause = self.random.random(), self.random.uniform(0.0, self.longest_delay_seconds)
        if dice < self.refuse_rate:
            fault = refuse(self.when, self.random.choice((429, 500, 503, 504)))
        elif dice < self.refuse_rate + self.hang_up_rate:
            fault = hang_up(self.when)
        elif dice < self.refuse_rate + self.hang_up_rate + self.lost_answer_rate:
            fault = hang_up(self.when, after_effect=True)
        else:
            fault = delay(self.when, 0.0)
        fault.delay_seconds = pause
        return fault


class FaultyTransport:
    """Passes requests on to `inner`, except where a fault strikes; the first one that does decides."""

    def __init__(
        self,
        inner: Transport,
        faults: Iterable[Fault] = (),
        *,
        chaos: Chaos | None = None,
        clock: Sleeper | None = None,
    ) -> None:
        self._inner = inner
        self._faults = list(faults)
        self._chaos = chaos
        self._clock = clock or LoopSleeper()
        #: Every request that was made, whatever became of it.
        self.requests: list[Request] = []

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """No more faults from here on."""
        self._faults.clear()
        self._chaos = None

    async def request(self, request: Request) -> Response:
        fault = await self._fault_for(request)
        if fault is None or not fault.fails:
            return await self._inner.request(request)
        if fault.after_effect:
            await self._inner.request(request)
        if fault.answer is not None:
            return fault.answer
        raise _hung_up(request)

    async def stream(self, request: Request) -> Stream:
        fault = await self._fault_for(request)
        if fault is not None and fault.fails:
            if fault.answer is not None:
                return _FailedStream(fault.answer)
            raise _hung_up(request)
        stream = await self._inner.stream(request)
        limit = fault.cut_after_events if fault is not None else None
        chaos = self._chaos if self._chaos is not None and self._chaos.cut_rate > 0 else None
        if limit is None and chaos is None:
            return stream
        return _CutStream(request, stream, limit, chaos, cleanly=fault is not None and fault.cleanly)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _fault_for(self, request: Request) -> Fault | None:
        self.requests.append(request)
        # All of them count the request, so that one fault's turn doesn't depend on another's.
        striking = [fault for fault in self._faults if fault.strikes(request)]
        fault = striking[0] if striking else self._chaos.pick(request) if self._chaos is not None else None
        if fault is not None and fault.delay_seconds > 0:
            await self._clock.sleep(fault.delay_seconds)
        return fault


def _hung_up(request: Request) -> TransportError:
    # A client can't know whether its request arrived before the connection broke.
    return TransportError(f"{request.method} {request.path}: no answer: injected hang-up", maybe_carried_out=True)


class _FailedStream:
    """An error answer where a stream was asked for."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def read_all(self) -> bytes:
        return self._body

    async def aclose(self) -> None:
        return None


class _CutStream:
    """A stream that ends too early."""

    def __init__(
        self, request: Request, inner: Stream, limit: int | None, chaos: Chaos | None, *, cleanly: bool
    ) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._request = request
        self._inner = inner
        self._limit = limit
        self._chaos = chaos
        self._cleanly = cleanly

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        if left == 0 and self._end():
            return
        async for chunk in self._inner:
            if self._chaos is not None and self._chaos.random.random() < self._chaos.cut_rate:
                yield chunk[: self._chaos.random.randrange(len(chunk) + 1)]
                raise _hung_up(self._request)
            if left is None:
                yield chunk
                continue
            events = chunk.split(b"\n")
            if len(events) - 1 < left:
                left -= len(events) - 1
                yield chunk
                continue
            whole = b"".join(event + b"\n" for event in events[:left])
            broken = b"" if self._cleanly else events[left][: len(events[left]) // 2]
            yield whole + broken
            if self._end():
                return

    def _end(self) -> bool:
        """True for a clean end; raises for the other kind."""
        if self._cleanly:
            return True
        raise _hung_up(self._request)

    async def read_all(self) -> bytes:
        return await self._inner.read_all()

    async def aclose(self) -> None:
        await self._inner.aclose()
