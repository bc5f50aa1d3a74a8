"""When a request is sent again."""

from __future__ import annotations

import email.utils
import time

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.kube.client import Client, PatchType
from bosket.kube.errors import AlreadyExists, ApiError, Conflict, ServerError, TooManyRequests, TransportError
from bosket.kube.retry import RetryPolicy, retry_after_seconds
from bosket.kube.transport import Response
from tests.kube.scripted import NotedSleep, Script, answer, client_of, failure, pod

LOST = TransportError("hung up")
REFUSED = TransportError("connection refused", maybe_carried_out=False)


async def send(client: Client, verb: str) -> None:
    typed = msgspec.convert(pod("a"), Pod)
    match verb:
        case "get":
            await client.get(Pod, "a", "ns")
        case "create":
            await client.create(typed)
        case "replace":
            await client.replace(typed)
        case "merge":
            await client.patch(Pod, "a", {}, namespace="ns")
        case "json":
            await client.patch(
                Pod, "a", [{"op": "add", "path": "/x/-", "value": 1}], namespace="ns", type=PatchType.JSON
            )
        case "guarded json":
            guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
            await client.patch(Pod, "a", [guard], namespace="ns", type=PatchType.JSON)
        case "delete":
            await client.delete(Pod, "a", "ns")


IDEMPOTENT = ["get", "replace", "merge", "guarded json", "delete"]
EVERY = [*IDEMPOTENT, "create", "json"]


@pytest.mark.parametrize("verb", EVERY)
@pytest.mark.parametrize(
    "refusal", [failure(429, "TooManyRequests"), failure(503), REFUSED], ids=["429", "503", "refused"]
)
async def test_what_was_certainly_not_carried_out_is_sent_again(verb: str, refusal: Response | Exception) -> None:
    script = Script(refusal, answer(pod("a")))
    await send(client_of(script), verb)
    assert len(script.requests) == 2


@pytest.mark.parametrize("verb", IDEMPOTENT)
@pytest.mark.parametrize("trouble", [failure(500), failure(504), LOST], ids=["500", "504", "lost"])
async def test_what_may_be_done_twice_is_sent_again_when_its_fate_is_unknown(
    verb: str, trouble: Response | Exception
) -> None:
    script = Script(trouble, answer(pod("a")))
    await send(client_of(script), verb)
    assert len(script.requests) == 2


@pytest.mark.parametrize("verb", ["create", "json"])
@pytest.mark.parametrize("trouble", [failure(500), failure(504), LOST], ids=["500", "504", "lost"])
async def test_what_may_have_been_carried_out_and_may_not_be_done_twice_is_not_repeated(
    verb: str, trouble: Response | Exception
) -> None:
    script = Script(trouble)
    with pytest.raises((ServerError, TransportError)):
        await send(client_of(script), verb)
    assert len(script.requests) == 1


@pytest.mark.parametrize(("reason", "kind"), [("Conflict", Conflict), ("AlreadyExists", AlreadyExists)])
@pytest.mark.parametrize("verb", EVERY)
async def test_a_conflict_is_an_answer(verb: str, reason: str, kind: type[ApiError]) -> None:
    script = Script(failure(409, reason))
    with pytest.raises(kind):
        await send(client_of(script), verb)
    assert len(script.requests) == 1


async def test_attempts_are_bounded_and_the_last_error_is_raised() -> None:
    script = Script(*[failure(503, message=f"busy {n}") for n in range(5)])
    clock = NotedSleep()
    with pytest.raises(ServerError, match="busy 4"):
        await client_of(script, clock).get(Pod, "a", "ns")
    assert len(script.requests) == 5
    assert len(clock.slept) == 4


async def test_the_delay_grows_with_full_jitter_up_to_its_limit() -> None:
    policy = RetryPolicy(attempts=100, base_seconds=1.0, limit_seconds=8.0)
    for attempt, limit in enumerate((1.0, 2.0, 4.0, 8.0, 8.0)):
        delays = [policy.delay_after_failure(LOST, attempt, idempotent=True) or 0.0 for _ in range(300)]
        assert 0.9 * limit < max(delays) <= limit
        assert min(delays) < 0.1 * limit


async def test_retry_after_is_waited_for() -> None:
    script = Script(failure(429, retry_after="7"), answer(pod("a")))
    clock = NotedSleep()
    await client_of(script, clock).get(Pod, "a", "ns")
    assert 7.0 <= clock.slept[0] <= 7.0 + RetryPolicy().base_seconds


async def test_a_pause_longer_than_anyone_would_wait_ends_in_the_error_at_once() -> None:
    clock = NotedSleep()
    with pytest.raises(TooManyRequests):
        await client_of(Script(failure(429, retry_after="86400")), clock).get(Pod, "a", "ns")
    assert not clock.slept


def test_retry_after_may_be_a_date_and_nonsense_is_ignored() -> None:
    in_a_minute = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert retry_after_seconds({"retry-after": in_a_minute}) == pytest.approx(60, abs=3)
    assert retry_after_seconds({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0
    assert retry_after_seconds({"retry-after": "soon"}) is None
    assert retry_after_seconds({}) is None
