"""Simulated pods of a gang whose init container waits for those that start first."""

from __future__ import annotations

import pytest

from bosket.api.core import Container, Pod, PodSpec
from bosket.api.object import ObjectMeta
from bosket.embedded.start_order import StartOrder
from tests.embedded.test_kubelet import World, in_phase

pytestmark = pytest.mark.looptime


def pod(name: str, clique: str, *after: str, delay: str = "") -> Pod:
    labels = {"grove.io/podgang": "s-0", "grove.io/podclique": clique}
    annotations = {"bosket.dev/start-delay": delay} if delay else {}
    waits = Container(name="grove-initc", image="initc", args=tuple(f"--podcliques={each}" for each in after))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels, annotations=annotations),
        spec=PodSpec(
            containers=(Container(name="main", image="i"),), initContainers=(waits,) if after else (), nodeName=""
        ),
    )


async def run(world: World, *pods: Pod) -> None:
    for each in pods:
        await world.client.bind(await world.client.create(each), "node-000")


def is_initializing(pod: Pod) -> bool:
    return any(each.type == "Initialized" and each.status == "False" for each in pod.status.conditions)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.populate()
    return world


async def test_a_pod_starts_when_enough_of_those_before_it_are_ready(world: World) -> None:
    async with world.kubelet():
        await run(world, pod("last", "s-0-c", "s-0-a:2", "s-0-b:1"), pod("a1", "s-0-a"))
        waiting = await world.until("last", is_initializing)
        assert waiting.status.phase == "Pending"
        (state,) = waiting.status.initContainerStatuses
        assert state.state.running is not None
        await run(world, pod("b1", "s-0-b"), pod("a2", "s-0-a", delay="60s"))
        await world.clock.sleep(30)
        assert is_initializing(await world.pod("last"))
        started = await world.until("last", in_phase("Running"))
        (state,) = started.status.initContainerStatuses
        assert state.state.terminated is not None


async def test_a_kubelet_that_starts_anew_knows_who_waits(world: World) -> None:
    async with world.kubelet():
        await run(world, pod("last", "s-0-b", "s-0-a:1"))
        await world.until("last", is_initializing)
    async with world.kubelet():
        await run(world, pod("a1", "s-0-a"))
        await world.until("last", in_phase("Running"))


async def test_arguments_that_make_no_sense_hold_nobody_up(world: World) -> None:
    async with world.kubelet():
        await run(world, pod("last", "s-0-b", "s-0-a"))
        await world.until("last", in_phase("Running"))


def test_nothing_is_kept_of_gangs_that_are_gone() -> None:
    order = StartOrder()
    waiting = pod("last", "s-0-b", "s-0-a:1")
    assert order.changed(None, waiting) == []
    assert order.holds(waiting)
    assert order.changed(waiting, None) == []
    assert vars(order) == {"_ready": {}, "_waiting": {}}
