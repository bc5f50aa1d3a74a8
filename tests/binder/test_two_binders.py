"""Two binders at once, as during a change of leaders: a pod is bound once, and what it needs is there."""

from __future__ import annotations

import asyncio

import pytest

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.services.binder import Attempt, BindPlugin, Options, ReservationOptions
from bosket.testing.faults import matching
from tests.binder.scene import BOUND, Ledger, ask, binder, end_state, finished, pod, scene
from tests.binder.sharing_scene import (
    NODE,
    NOTHING,
    Traces,
    bound,
    maps_of,
    node_running,
    settled_to,
    share,
    sharing_pod,
    sharing_rig,
    the_pod,
    traces,
)
from tests.rig import NAMESPACE, Meddling, Rig

pytestmark = pytest.mark.looptime


async def is_bound(rig: Rig) -> bool:
    return bool((await the_pod(rig)).spec.nodeName)


class Pausing(BindPlugin):
    """Comes last, and waits; with a reason, it fails then."""

    name = "pausing"
    priority = -1

    def __init__(self, seconds: float, *, then: str = "") -> None:
        self._seconds = seconds
        self._then = then

    async def pre_bind(self, attempt: Attempt) -> None:
        await asyncio.sleep(self._seconds)
        if self._then:
            raise RuntimeError(self._then)


async def test_both_may_try_and_one_binds() -> None:
    names = [f"pod-{number}" for number in range(10)]
    rig = await scene(*map(pod, names))
    for name in names:
        await ask(rig, name)
    ledger = Ledger(rig.server.transport())
    async with rig.running(binder(Pausing(1.0)), ledger), rig.running(binder(Pausing(1.0)), ledger):
        for name in names:
            await finished(rig, name)
        await rig.clock.sleep(60)
    assert ledger.binds() == len(names)
    for name in names:
        assert await end_state(rig, name) == BOUND


async def test_both_may_share_gpus_out_and_one_reservation_is_made() -> None:
    names = ["a", "b", "c"]
    rig = await sharing_rig(*map(sharing_pod, names))
    for name in names:
        await share(rig, name, "g")
    ledger = Ledger(rig.server.transport())
    async with (
        node_running(rig),
        rig.running(binder(Pausing(1.0)), ledger),
        rig.running(binder(Pausing(1.5)), ledger),
    ):
        await bound(rig, *names)
        await rig.clock.sleep(60)
        left = await traces(rig)
        assert list(left.reservations) == ["g"]
        for name in names:
            assert (await maps_of(rig, name))[1] == {"NVIDIA_VISIBLE_DEVICES": left.reservations["g"]}
    assert ledger.binds() == len(names)


async def test_one_that_gives_up_does_not_take_from_a_bound_pod_what_it_has() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")
    async with (
        node_running(rig),
        rig.running(binder(Pausing(5.0, then="no more"))),
        rig.running(binder(Pausing(1.0))),
    ):
        await rig.until(lambda: is_bound(rig))
        await rig.clock.sleep(60)
        left = await traces(rig)
    assert (await rig.client.get(BindRequest, "a", NAMESPACE)).status.phase == "Succeeded"
    assert list(left.reservations) == ["g"]
    assert left.labels == {"a": ("g",)}
    assert left.maps == {"a-shared-gpu-0", "a-shared-gpu-0-evar"}


async def test_one_that_gives_up_while_the_other_is_about_to_bind_makes_that_one_prepare_anew() -> None:
    """The bind insists on the version of the pod that was prepared; without that it would be bound to nothing."""
    rig = await sharing_rig()
    await share(rig, "a", "g", limit=100)
    async with (
        node_running(rig),
        rig.running(binder(Pausing(2.0, then="no more"))),
        rig.running(binder(Pausing(3.0))),
    ):
        await rig.until(lambda: is_bound(rig))
        left = await traces(rig)
        assert list(left.reservations) == ["g"]
        assert left.labels == {"a": ("g",)}
        assert (await maps_of(rig))[1] == {"NVIDIA_VISIBLE_DEVICES": left.reservations["g"]}


async def test_a_pod_that_somebody_changes_at_the_last_moment_is_bound_all_the_same() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")

    async def change() -> None:
        await rig.client.patch(Pod, "a", {"metadata": {"labels": {"new": "one"}}}, namespace=NAMESPACE)

    meddling = Meddling(rig.server.transport(), matching("POST", "/binding"), change)
    async with node_running(rig), rig.running(binder(), meddling):
        request = await finished(rig)
    assert request.status.failedAttempts == 0
    assert (await the_pod(rig)).metadata.labels == {"kept": "yes", "new": "one", "runai-gpu-group": "g"}


async def test_a_pod_that_somebody_changes_all_the_time_is_given_up_without_a_trace() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")

    class Restless(BindPlugin):
        name = "restless"
        priority = -1

        async def pre_bind(self, attempt: Attempt) -> None:
            version = attempt.pod.metadata.resourceVersion
            await rig.client.patch(Pod, "a", {"metadata": {"labels": {"at": version}}}, namespace=NAMESPACE)

    async with node_running(rig), rig.running(binder(Restless())):
        request = await finished(rig, phase="Failed")
        assert request.status.reason == "pod ml/a changes whenever it is about to be bound"
        await settled_to(rig, NOTHING)


async def test_a_request_that_was_deleted_meanwhile_is_not_carried_out() -> None:
    rig = await sharing_rig()
    await share(rig, "a", "g")

    async def delete_request() -> None:
        await rig.client.delete(BindRequest, "a", NAMESPACE)
        await rig.client.patch(Pod, "a", {"metadata": {"labels": {"new": "one"}}}, namespace=NAMESPACE)
        await rig.clock.sleep(1)  # until the binder has heard of it

    meddling = Meddling(rig.server.transport(), matching("POST", "/binding"), delete_request)
    async with node_running(rig), rig.running(binder(), meddling):
        await rig.clock.sleep(60)
    assert await traces(rig) == NOTHING
    assert (await the_pod(rig)).spec.nodeName == ""


async def test_the_next_binder_goes_on_with_what_the_last_one_had_begun() -> None:
    """The reservation is there, and has not named its device when the first binder ends."""
    rig = await sharing_rig()
    await share(rig, "a", "g")
    options = Options(reservation=ReservationOptions(allocation_timeout_seconds=1000.0))
    async with node_running(rig, with_devices=False), rig.running(binder(options=options)):
        await rig.clock.sleep(30)
        assert (await traces(rig)).labels == {"a": ("g",)}
    async with node_running(rig), rig.running(binder(options=options)):
        await finished(rig)
    left = await traces(rig)
    assert left == Traces(
        {"g": left.reservations["g"]}, {"a": ("g",)}, frozenset({"a-shared-gpu-0", "a-shared-gpu-0-evar"})
    )
    assert (await the_pod(rig)).spec.nodeName == NODE
