"""What comes in from informers: the first lists, and what happens once they are in."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from bosket.kube.informer import Informers
from bosket.scheduler.io import feed
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, queue
from bosket.testing.cluster import NOW
from tests.noting import noting
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def following(rig: Rig, state: ClusterState) -> AsyncIterator[Feed]:
    informers = Informers(rig.client)
    made = Feed(informers, state)
    task = asyncio.create_task(informers.run())
    try:
        await made.wait_synced()
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def a_cluster() -> Rig:
    group = pod_group("g", min_member=3, namespace=NAMESPACE)
    return await make_rig([node("n1"), queue("q"), group, *gang("g", 3, namespace=NAMESPACE)])


async def test_the_garbage_collector_is_kept_from_the_first_lists_and_from_nothing_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(feed, "_FROZEN_AT_ONCE", 2)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(frozen)))
    rig = await a_cluster()
    async with following(rig, ClusterState()) as following_it:
        first = len(frozen)
        following_it.changed.clear()
        for number in range(6):
            await rig.client.create(pod(f"later-{number}", NAMESPACE).build())
        await following_it.changed.wait()
        await asyncio.sleep(1)
    assert first >= 3
    assert len(frozen) == first


async def test_the_first_snapshot_is_prepared_when_all_lists_are_in() -> None:
    rig, state = await a_cluster(), ClusterState()
    prepared: list[bool] = []
    warm_up = state.warm_up
    state.warm_up = noting(prepared, warm_up, lambda: True)  # type: ignore[method-assign]
    async with following(rig, state):
        assert prepared == [True]
        assert len(state.snapshot(NOW).unsettled) == 1


async def test_a_state_that_can_not_be_prepared_is_left_to_the_first_cycle() -> None:
    rig, state = await a_cluster(), ClusterState()

    def failing() -> Iterator[None]:
        raise RuntimeError("no")
        yield  # type: ignore[unreachable]

    state.warm_up = failing  # type: ignore[method-assign]
    async with following(rig, state):
        assert len(state.snapshot(NOW).unsettled) == 1
