"""A PodCliqueSet that is updated: new pods would rather have the places that become free, until the update is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bosket.api.core import Pod
from bosket.api.grove import NamespacedName, PodCliqueSet, PodGang
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.client import Client
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change, Informer
from bosket.runtime.clock import LoopClock

pytestmark = pytest.mark.looptime
NAMESPACE = "default"
SERVICES = ("grove-admission", "grove-operator", "grove-backends", "scheduler", "binder")


def manifest(version: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "example.test/app:1",
        "env": [{"name": "VERSION", "value": version}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {"schedulerName": "kai-scheduler", "containers": [container]}
    cliques = [{"name": "a", "spec": {"roleName": "a", "replicas": 2, "minAvailable": 1, "podSpec": pod}}]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": NAMESPACE},
        "spec": {"replicas": 1, "template": {"cliques": cliques}},
    }


async def until(clock: LoopClock, look: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(600):
        try:
            if await look():
                return
        except NotFound:
            pass
        await clock.sleep(0.5)
    pytest.fail(f"not so after 300 s: {look.__name__}")


async def running(client: Client) -> dict[str, Pod]:
    """By uid."""
    pods = (await client.list(Pod, NAMESPACE)).items
    return {each.metadata.uid: each for each in pods if each.status.phase == "Running"}


@asynccontextmanager
async def every_reference(client: Client) -> AsyncIterator[set[NamespacedName | None]]:
    """What gangs refer to, at any moment of the block."""
    seen: set[NamespacedName | None] = set()

    def note(change: Change[PodGang]) -> None:
        if change.new is not None:
            seen.add(change.new.spec.reuseReservationRef)

    gangs = Informer(client, PodGang)
    gangs.subscribe(note)
    task = asyncio.create_task(gangs.run())
    try:
        await gangs.wait_synced()
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


def liked(pod: Pod) -> set[str]:
    affinity = pod.spec.affinity and pod.spec.affinity.nodeAffinity
    preferred = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else ()
    return {value for each in preferred for field in each.preference.matchFields for value in field.values}


async def test_pods_of_an_update_ask_for_the_places_of_their_predecessors() -> None:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=2, services=SERVICES, clock=clock) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await client.create(manifest("1"))

        async def both_run() -> bool:
            return len(await running(client)) == 2

        await until(clock, both_run)
        before = await running(client)
        async with every_reference(client) as referred:
            await client.patch(PodCliqueSet, "s", {"spec": manifest("2")["spec"]}, namespace=NAMESPACE)

            async def all_are_new() -> bool:
                now = await running(client)
                return len(now) == 2 and not now.keys() & before.keys()

            await until(clock, all_are_new)
            assert referred == {None, NamespacedName(namespace=NAMESPACE, name="s-0")}
        places = {each.spec.nodeName for each in before.values()}
        preferred = [liked(each) for each in (await running(client)).values()]
        assert all(each and each <= places for each in preferred), preferred

        async def is_over() -> bool:
            return (await client.get(PodGang, "s-0", NAMESPACE)).spec.reuseReservationRef is None

        await until(clock, is_over)
