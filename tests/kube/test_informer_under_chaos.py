"""Whatever happens to requests and watches, an informer ends up with what the server has, and never lies on the way."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from bosket.api.core import ConfigMap
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.apiserver.server.api_server import ApiServer
from bosket.kube.client import Client
from bosket.kube.errors import KubeError
from bosket.kube.informer import Change, Informer
from bosket.runtime.clock import LoopClock
from bosket.testing.faults import Chaos, FaultyTransport

KEYS = [ObjectKey("default", name) for name in "abcdef"]


class Mirror:
    """Follows the changes that handlers get, and checks that each one agrees with the changes before."""

    def __init__(self, informer: Informer[ConfigMap]) -> None:
        self.objects: dict[ObjectKey, ConfigMap] = {}
        self.misfits: list[Change[ConfigMap]] = []
        informer.subscribe(self._follow)

    def _follow(self, change: Change[ConfigMap]) -> None:
        known = change.new or change.old
        assert known is not None
        if self.objects.get(known.key) != change.old:
            self.misfits.append(change)
        if change.new is None:
            self.objects.pop(known.key, None)
        else:
            self.objects[known.key] = change.new


async def write_something(client: Client, informer: Informer[ConfigMap], dice: random.Random) -> None:
    """One random write; its answer, if it arrives, is laid over the informer's store."""
    key = dice.choice(KEYS)
    known = informer.store.get(key)
    data = {"n": str(dice.random())}
    try:
        if known is None:
            new = ConfigMap(metadata=ObjectMeta(name=key.name, namespace=key.namespace), data=data)
            informer.store.put(await client.create(new))
        elif dice.random() < 0.3:
            await client.delete(ConfigMap, key.name, key.namespace)
            informer.store.discard(key, known.metadata.uid)
        else:
            informer.store.put(await client.modify(known, replace(known, data=data)))
    except KubeError:
        pass  # Conflicts, lost answers and refusals are what this is about.


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.looptime
async def test_the_store_ends_as_the_server_is(seed: int) -> None:
    clock = LoopClock()
    # So short a memory that watches which broke off often have to list again.
    server = ApiServer(clock=clock, history=20)
    chaos = Chaos(
        seed, refuse_rate=0.1, hang_up_rate=0.1, lost_answer_rate=0.1, cut_rate=0.2, longest_delay_seconds=0.5
    )
    faulty = FaultyTransport(server.transport(), chaos=chaos, clock=clock)
    client = Client(faulty, clock=clock)
    honest = Client(server.transport())
    informer = Informer(client, ConfigMap, namespace="default")
    mirror = Mirror(informer)
    running = asyncio.create_task(informer.run())
    dice = random.Random(seed)
    try:
        for _ in range(150):
            await write_something(client, informer, dice)
            await clock.sleep(dice.uniform(0.0, 0.3))
        faulty.heal()
        await clock.sleep(120)  # Longer than any back-off.
        truth = {item.key: item for item in (await honest.list(ConfigMap, "default")).items}
        assert {item.key: item for item in informer.store} == truth
        assert mirror.objects == truth
        assert not mirror.misfits
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
