"""A transport on which everything goes wrong that can, as a seed has it: errors, conflicts, lost answers, death.

One `Calamity` stands for all that befalls the binders of a test: it decides at each of their requests, as long as its
misfortunes last. A binder that dies hears nothing any more; the test starts the next one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from bosket.api.object import Status
from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream, Transport

#: What may befall a request. `late`: after it took effect.
FATES = ("error", "late error", "conflict", "time-out", "late time-out", "death", "late death")


class Calamity:
    """Misfortunes at random, `left` of them, each with a probability of `rate` per request."""

    def __init__(self, seed: int, *, misfortunes: int, rate: float) -> None:
        self.random = random.Random(seed)
        self.left = misfortunes
        self._rate = rate
        self.struck: Counter[str] = Counter()

    def latency(self) -> float:
        """Seconds that a request takes to arrive: enough for others to come first."""
        return self.random.choice((0.0, 0.0, 0.05, 0.4)) if self.left > 0 else 0.0

    def pick(self) -> str | None:
        if self.left <= 0 or self.random.random() >= self._rate:
            return None
        self.left -= 1
        fate = self.random.choice(FATES)
        self.struck[fate] += 1
        return fate


class MortalTransport:
    """The way to the server of one binder's process."""

    def __init__(self, inner: Transport, calamity: Calamity, on_bind: Callable[[str], Awaitable[None]]) -> None:
        self._inner = inner
        self._calamity = calamity
        self._on_bind = on_bind
        self.dead = asyncio.Event()

    async def request(self, request: Request) -> Response:
        await self._hear_nothing_if_dead()
        await asyncio.sleep(self._calamity.latency())
        fate = self._calamity.pick() if not request.path.endswith("/events") else None
        if fate is None:
            return await self._carry_out(request)
        if fate.startswith("late"):
            await self._carry_out(request)
        if fate.endswith("death"):
            self.dead.set()
            await self._hear_nothing_if_dead()
        if fate.endswith("time-out"):
            raise TransportError("no answer", maybe_carried_out=True)
        code, reason = (409, "Conflict") if fate == "conflict" else (500, "InternalError")
        body = msgspec.json.encode(Status(status="Failure", code=code, reason=reason, message="injected"))
        return Response(code, {"content-type": "application/json"}, body)

    async def stream(self, request: Request) -> Stream:
        await self._hear_nothing_if_dead()
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _carry_out(self, request: Request) -> Response:
        response = await self._inner.request(request)
        if response.status < 400 and request.path.endswith("/binding"):
            await self._on_bind(request.path.split("/")[-2])
        return response

    async def _hear_nothing_if_dead(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()
