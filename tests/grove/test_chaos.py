"""An operator that dies at any moment, again and again, during scaling and updates, ends where an undisturbed one does.

It dies at a request: before the API server has it, or after it was carried out and before the answer is there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

import msgspec
import pytest

from bosket.api.core import Namespace
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.keys import GROVE_POD_CLIQUE_LABEL, GROVE_POD_GANG_LABEL
from bosket.api.object import ObjectMeta
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.runtime.clock import LoopClock
from tests.conformance.grove_compare import step_differences
from tests.conformance.grove_dump import KINDS, Json, dumped, path_of
from tests.conformance.grove_world import NodesAndScheduler, make_nodes
from tests.grove.operator_process import operator
from tests.grove.sets import NAMESPACE, clique, clique_set, group
from tests.grove.world import World

pytestmark = pytest.mark.looptime

LIVES: Final = 50
NAME: Final = "web"


class MortalTransport:
    """Carries some writes, and then never answers again; `died` says when that is so."""

    def __init__(self, inner: Transport, random: Random, writes: int) -> None:
        self._inner = inner
        self._random = random
        self._left = writes
        self.died = asyncio.Event()

    async def request(self, request: Request) -> Response:
        self._left -= request.method != "GET"
        if self._left >= 0:
            return await self._inner.request(request)
        if self._left == -1 and self._random.random() < 0.5:
            await self._inner.request(request)  # carried out, but nobody will know
        self.died.set()
        return await asyncio.Future()

    async def stream(self, request: Request) -> Stream:
        return await self._inner.stream(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _actions(world: World) -> list[Callable[[], Awaitable[Any]]]:
    """What users do meanwhile, one thing after the other."""
    return [
        lambda: world.scale(PodCliqueScalingGroup, f"{NAME}-0-model", 3),
        lambda: world.change_image(NAME, "router", "leader", image="app:2"),
        lambda: world.scale(PodCliqueSet, NAME, 2),
        lambda: world.scale(PodClique, f"{NAME}-0-router", 4),
        lambda: world.change_image(NAME, "router", "leader", "worker", image="app:3"),
        lambda: world.scale(PodCliqueScalingGroup, f"{NAME}-0-model", 1),
        lambda: world.scale(PodClique, f"{NAME}-0-router", 2),
        lambda: world.change_image(NAME, "worker", image="app:4"),
    ]


async def _end_state(random: Random | None) -> list[Json]:
    """All objects in the end; with a source of chance, after an operator that died that often."""
    cluster = EmbeddedCluster(
        nodes=0,
        services=("grove-admission", "grove-backends"),
        clock=LoopClock(),
        more_services=(NodesAndScheduler,),
    )
    async with cluster:
        world = World(cluster.client("test"), cluster.clock)
        await make_nodes(world.client)
        await world.apply(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        await cluster.wait_ready()
        cliques = (clique(name, count, 1, scheduler="default-scheduler") for name, count in _SIZES)
        await world.apply(clique_set(NAME, *cliques, groups=[group("model", "leader", "worker", replicas=2)]))
        actions = _actions(world)
        if random is not None:
            for life in range(LIVES):
                if actions and life % 5 == 4:
                    await actions.pop(0)()
                mortal = MortalTransport(cluster.server.transport(), random, random.randrange(15))
                async with operator(cluster, mortal):
                    await asyncio.wait([asyncio.ensure_future(mortal.died.wait())], timeout=20)
        async with operator(cluster, cluster.server.transport()):
            await world.settle(5)
            for act in actions:
                await act()
                await world.settle(1)
            await world.settle(120)
        return dumped(await _objects(world))


_SIZES: Final = (("router", 2), ("leader", 1), ("worker", 2))


async def _objects(world: World) -> list[Json]:
    found: list[Json] = []
    for kind in KINDS:
        if kind == "VolcanoPodGroup":
            continue
        answer = await world.client.raw("GET", path_of(kind, NAMESPACE))
        document = msgspec.json.decode(answer.body)
        real = document["kind"].removesuffix("List")
        found += [{**each, "apiVersion": document["apiVersion"], "kind": real} for each in document["items"]]
    return found


def _uncounted(objects: list[Json]) -> list[Json]:
    """Without how often objects were changed on the way, and without the numbers of pods that gangs refer to.

    A pod that takes the place of another gets the lowest number that is free; whether its predecessor is gone by then
    is a matter of time, which the recorded cases leave open, too. That gangs refer to just their pods isn't.
    """
    pods: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for each in objects:
        labels = each["metadata"].get("labels", {})
        if each["kind"] == "Pod":
            pods[labels[GROVE_POD_GANG_LABEL], labels[GROVE_POD_CLIQUE_LABEL]].add(each["metadata"]["name"])
    for each in objects:
        each["metadata"].pop("generation", None)
        each.get("status", {}).pop("observedGeneration", None)
        for condition in each.get("status", {}).get("conditions", []):
            condition.pop("observedGeneration", None)
        for part in each["spec"]["podgroups"] if each["kind"] == "PodGang" else ():
            references = part["podReferences"]
            assert {reference["name"] for reference in references} == pods[each["metadata"]["name"], part["name"]]
            for reference in references:
                reference["name"] = reference["name"].partition("~")[0]
    return objects


@pytest.mark.parametrize("seed", range(2))
async def test_the_end_is_the_same_however_often_the_operator_dies(seed: int) -> None:
    undisturbed = _uncounted(await _end_state(None))
    assert len([each for each in undisturbed if each["kind"] == "Pod"]) == 13
    chaotic = _uncounted(await _end_state(Random(seed)))
    assert step_differences(undisturbed, chaotic, ()) == []
