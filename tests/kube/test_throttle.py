"""No more requests than so many a second, leases aside."""

from __future__ import annotations

import asyncio

import pytest

from bosket.kube.throttle import ThrottledTransport
from bosket.kube.transport import Request, Response, Stream
from bosket.runtime.clock import LoopClock

pytestmark = pytest.mark.looptime


class Recorder:
    """Answers at once, and notes when it was asked."""

    def __init__(self) -> None:
        self._clock = LoopClock()
        self._began = self._clock.monotonic()
        self.asked: list[float] = []

    async def request(self, request: Request) -> Response:
        self.asked.append(round(self._clock.monotonic() - self._began, 6))
        return Response(200)

    async def stream(self, request: Request) -> Stream:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


async def send(transport: ThrottledTransport, number: int, path: str = "/api/v1/pods") -> None:
    await asyncio.gather(*(transport.request(Request("GET", path)) for _ in range(number)))


async def test_a_burst_goes_at_once_and_the_rest_at_its_pace_in_order() -> None:
    recorder = Recorder()
    await send(ThrottledTransport(recorder, 10, 3, LoopClock()), 6)
    assert recorder.asked == [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]


async def test_rest_is_rewarded_with_one_burst_and_no_more() -> None:
    recorder, clock = Recorder(), LoopClock()
    transport = ThrottledTransport(recorder, 10, 2, clock)
    await send(transport, 2)
    await clock.sleep(60)
    await send(transport, 3)
    assert recorder.asked == [0.0, 0.0, 60.0, 60.0, 60.1]


async def test_a_leader_never_waits_for_its_lease_behind_its_own_writes() -> None:
    recorder = Recorder()
    transport = ThrottledTransport(recorder, 1, 1, LoopClock())
    await send(transport, 1)
    await send(transport, 5, "/apis/coordination.k8s.io/v1/namespaces/kai-scheduler/leases/kai-scheduler")
    assert recorder.asked == [0.0] * 6
