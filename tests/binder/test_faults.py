"""The API server doesn't answer, answers too late, or answers with errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.testing.faults import Chaos, FaultyTransport, hang_up, matching, refuse
from tests.binder.scene import (
    BOUND,
    BOUND_AFTER_ALL,
    EndState,
    Ledger,
    ask,
    binder,
    call_unbound,
    end_state,
    finished,
    pod,
    scene,
)
from tests.rig import Rig

pytestmark = pytest.mark.looptime

BINDING = matching("POST", "/binding")
POD_STATUS = matching("PATCH", "/pods/a/status")
REQUEST_STATUS = matching("PATCH", "/bindrequests/a/status")


PASSING = {
    "bind, answer lost": lambda: hang_up(BINDING, after_effect=True),
    "bind, answered with a time-out": lambda: refuse(BINDING, 504, reason="Timeout", after_effect=True),
    "bind, answered with an error": lambda: refuse(BINDING, 500, after_effect=True),
    "bind, answered with a conflict": lambda: refuse(BINDING, 409, reason="Conflict", after_effect=True),
    "bind, server overloaded": lambda: refuse(BINDING, 503, times=2),
    "condition, answer lost": lambda: hang_up(POD_STATUS, after_effect=True),
    "condition, no answers": lambda: hang_up(POD_STATUS, times=20),
    "condition, errors": lambda: refuse(POD_STATUS, 500, times=20),
    "status, answer lost": lambda: hang_up(REQUEST_STATUS, after_effect=True),
    "status, no answers": lambda: hang_up(REQUEST_STATUS, times=20),
    "status, errors": lambda: refuse(REQUEST_STATUS, 500, times=20),
    "status, conflict": lambda: refuse(REQUEST_STATUS, 409, reason="Conflict"),
    "listing nodes, errors": lambda: refuse(matching("GET", "/nodes"), 500, times=20),
}


@pytest.mark.parametrize("kind", PASSING)
async def test_a_lost_answer_or_a_passing_error_changes_nothing_in_the_end(kind: str) -> None:
    rig = await scene()
    await call_unbound(rig)  # so that there is a condition to write
    await ask(rig)
    ledger = Ledger(rig.server.transport())
    fault = PASSING[kind]()
    async with rig.running(binder(), FaultyTransport(ledger, [fault])):
        await finished(rig)
    assert fault.struck > 0
    assert await end_state(rig) == replace(BOUND, conditions=BOUND.conditions | {BOUND_AFTER_ALL})
    assert ledger.binds() == 1


@pytest.mark.parametrize("code", [0, 500, 504])
async def test_a_bind_that_did_not_happen_is_a_failed_attempt(code: int) -> None:
    rig = await scene()
    await ask(rig, limit=2)
    ledger = Ledger(rig.server.transport())
    fault = refuse(BINDING, code) if code else hang_up(BINDING)
    async with rig.running(binder(), FaultyTransport(ledger, [fault])):
        request = await finished(rig)
    assert request.status.failedAttempts == 1
    assert (await end_state(rig)).node == BOUND.node
    assert ledger.binds() == 1


async def test_a_refused_bind_is_a_failed_attempt_with_the_servers_words() -> None:
    rig = await scene()
    await ask(rig)
    fault = refuse(BINDING, 403, reason="Forbidden", message="not for you", times=None)
    async with rig.running(binder(), FaultyTransport(rig.server.transport(), [fault])):
        request = await finished(rig, phase="Failed")
    assert "not for you" in request.status.reason


@pytest.mark.parametrize("seed", range(6))
async def test_in_chaos_every_pod_is_bound_once(seed: int) -> None:
    names = [f"pod-{number}" for number in range(12)]
    rig = await scene(*map(pod, names))
    for name in names:
        await ask(rig, name, limit=1000)
    ledger = Ledger(rig.server.transport())
    chaos = Chaos(
        seed, refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1, cut_rate=0.05, longest_delay_seconds=2.0
    )
    async with rig.running(binder(), FaultyTransport(ledger, chaos=chaos, clock=rig.clock)):
        for name in names:
            await finished(rig, name)
    assert ledger.binds() == len(names)
    for name in names:
        state = await end_state(rig, name)
        assert (state.node, state.annotations) == (BOUND.node, BOUND.annotations)
        # Those of which an attempt failed say that they are bound after all.
        assert state.conditions - {BOUND_AFTER_ALL} == BOUND.conditions


class Mortal:
    """A transport whose process dies at the `last` request: before the server sees it, or before the answer arrives."""

    def __init__(self, inner: Transport, last: int, *, after_effect: bool) -> None:
        self._inner = inner
        self._left = last
        self._after_effect = after_effect

    @property
    def is_dead(self) -> bool:
        return self._left <= 0

    async def request(self, request: Request) -> Response:
        self._left -= 1
        if self._left == 0 and self._after_effect:
            await self._inner.request(request)
        if self.is_dead:
            raise TransportError("dead", maybe_carried_out=True)
        return await self._inner.request(request)

    async def stream(self, request: Request) -> Stream:
        if self.is_dead:
            raise TransportError("dead", maybe_carried_out=False)
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def killed_at(rig: Rig, ledger: Ledger, last: int, *, after_effect: bool) -> bool:
    """Run a binder until its n-th request and kill it there; false when it had finished before."""
    mortal = Mortal(ledger, last, after_effect=after_effect)
    async with rig.running(binder(), mortal):

        async def dead_or_quiet() -> bool:
            if mortal.is_dead:
                return True
            phase = (await end_state(rig)).phase
            return phase == "Succeeded" or (phase == "Failed" and bool(await rig.events("BindingError")))

        await rig.until(dead_or_quiet)
    return mortal.is_dead


@pytest.mark.parametrize("after_effect", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize("target", ["node-1", "nowhere"])
async def test_a_binder_killed_at_any_request_leaves_the_rest_to_the_next_one(target: str, after_effect: bool) -> None:
    ends: list[EndState] = []
    last = 0
    alive = False
    while not alive:
        last += 1
        rig = await scene()
        await ask(rig, to=target)
        ledger = Ledger(rig.server.transport())
        alive = not await killed_at(rig, ledger, last, after_effect=after_effect)
        async with rig.running(binder(), ledger):
            await finished(rig, phase="Succeeded" if target == "node-1" else "Failed")
        ends.append(await end_state(rig))
        assert ledger.binds() == (target == "node-1")
        assert ledger.writes().count("PATCH pods/a/status") == (target != "node-1")
    assert last > 4
    assert ends == [ends[0]] * last
