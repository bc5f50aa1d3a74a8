"""The transport that fails on purpose fails exactly where the test wants it to."""

from __future__ import annotations

import pytest

from bosket.api.core import Pod
from bosket.kube.client import Client
from bosket.kube.errors import ServerError, TransportError
from bosket.kube.retry import RetryPolicy
from bosket.kube.transport import Request, Response
from bosket.testing.faults import Chaos, FaultyTransport, cut, delay, hang_up, matching, refuse
from tests.kube.scripted import NotedSleep, Watch, answer, bookmark, pod

ONCE = RetryPolicy(attempts=1)
GET = Request("GET", "/api/v1/namespaces/ns/pods/a")


class Inner:
    """Counts what arrives."""

    def __init__(self) -> None:
        self.arrived: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.arrived.append(request)
        return answer(pod("a"))

    async def stream(self, request: Request) -> Watch:
        return Watch(bookmark("1") + bookmark("2"), bookmark("3"), bookmark("4"))

    async def aclose(self) -> None:
        return None


async def versions(transport: FaultyTransport) -> list[str]:
    """The bookmarks of a watch up to its end, with how it ended."""
    seen: list[str] = []
    try:
        async for event in Client(transport).watch(Pod, resource_version="0"):
            seen.append(event.resource_version)
    except TransportError:
        seen.append("hung up")
    except ServerError:
        seen.append("refused")
    return seen


async def test_the_nth_matching_request_is_refused_before_it_arrives() -> None:
    inner = Inner()
    transport = FaultyTransport(inner)
    fault = transport.add(refuse(matching("GET", "/pods/a"), 503, nth=2, times=2, retry_after_seconds=4))
    client = Client(transport, retry=ONCE)
    await client.get(Pod, "a", "ns")
    await client.get(Pod, "b", "ns")
    for _ in range(2):
        with pytest.raises(ServerError, match="503: injected"):
            await client.get(Pod, "a", "ns")
    await client.get(Pod, "a", "ns")
    assert len(inner.arrived) == 3
    assert fault.struck == 2
    assert len(transport.requests) == 5


async def test_a_refusal_may_ask_for_patience() -> None:
    transport = FaultyTransport(Inner(), [refuse(matching(), 429, retry_after_seconds=4)])
    assert (await transport.request(GET)).headers["retry-after"] == "4"


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_hang_up_comes_before_or_after_the_effect(after_effect: bool) -> None:
    inner = Inner()
    client = Client(FaultyTransport(inner, [hang_up(matching("GET"), after_effect=after_effect)]), retry=ONCE)
    with pytest.raises(TransportError, match="injected hang-up"):
        await client.get(Pod, "a", "ns")
    assert len(inner.arrived) == int(after_effect)


async def test_a_watch_is_cut_after_so_many_events() -> None:
    assert await versions(FaultyTransport(Inner())) == ["1", "2", "3", "4"]
    for count, expected in ((0, []), (1, ["1"]), (2, ["1", "2"]), (3, ["1", "2", "3"])):
        assert await versions(FaultyTransport(Inner(), [cut(matching(), after_events=count)])) == [*expected, "hung up"]
        assert await versions(FaultyTransport(Inner(), [cut(matching(), after_events=count, cleanly=True)])) == expected


async def test_a_watch_may_be_refused_or_never_open() -> None:
    assert await versions(FaultyTransport(Inner(), [refuse(matching(), 500)])) == ["refused"]
    assert await versions(FaultyTransport(Inner(), [hang_up(matching())])) == ["hung up"]


async def test_a_delay_is_slept_on_the_clock_given() -> None:
    clock = NotedSleep()
    transport = FaultyTransport(Inner(), [delay(matching("GET"), 3.0)], clock=clock)
    await transport.request(GET)
    await transport.request(GET)
    assert clock.slept == [3.0, 3.0]


async def test_after_healing_all_is_well() -> None:
    transport = FaultyTransport(Inner(), [hang_up(matching(), times=None)], chaos=Chaos(1, hang_up_rate=1.0))
    transport.heal()
    await transport.request(GET)


async def outcomes(seed: int) -> list[str]:
    inner, clock = Inner(), NotedSleep()
    chaos = Chaos(seed, refuse_rate=0.2, hang_up_rate=0.2, lost_answer_rate=0.2, longest_delay_seconds=1.0)
    transport = FaultyTransport(inner, chaos=chaos, clock=clock)
    seen: list[str] = []
    for _ in range(60):
        before = len(inner.arrived)
        try:
            response = await transport.request(GET)
            seen.append(f"{response.status} {len(inner.arrived) - before}")
        except TransportError:
            seen.append(f"lost {len(inner.arrived) - before}")
    assert all(0.0 < pause < 1.0 for pause in clock.slept)
    return seen


async def test_chaos_is_repeatable_by_its_seed_and_does_everything_it_can() -> None:
    first = await outcomes(7)
    assert first == await outcomes(7)
    assert first != await outcomes(8)
    assert {"200 1", "lost 0", "lost 1"} < set(first)
    assert any(each.startswith(("429", "500", "503", "504")) for each in first)


async def test_chaos_cuts_watches_too_and_spares_what_it_is_told_to() -> None:
    runs = [await versions(FaultyTransport(Inner(), chaos=Chaos(seed, cut_rate=0.5))) for seed in range(20)]
    assert any(run[-1] == "hung up" for run in runs)
    assert any(run == ["1", "2", "3", "4"] for run in runs)
    inner = Inner()
    spared = FaultyTransport(inner, chaos=Chaos(1, hang_up_rate=1.0, when=matching("POST")))
    await spared.request(GET)
    assert len(inner.arrived) == 1
