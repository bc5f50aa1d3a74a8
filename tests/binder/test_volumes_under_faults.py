"""Whatever goes wrong around a bind with volumes, and whenever the binder is killed: nothing twice, nothing left."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from bosket.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectMeta
from bosket.api.storage import StorageClass
from bosket.embedded.controllers.simulated_storage import DRIVER, SimulatedStorage
from bosket.embedded.controllers.volume import VolumeController
from bosket.kube.volume import SELECTED_NODE_ANNOTATION, is_bound, reaches
from bosket.services.binder import Attempt, BindPlugin, Options
from bosket.testing.faults import Chaos, FaultyTransport
from tests.binder.scene import ask, binder, node
from tests.binder.test_volume_binding import LOCAL, claim, disk, user
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime

NODES = ("node-1", "node-2", "node-3")
MADE = StorageClass(metadata=ObjectMeta(name="made"), provisioner=DRIVER, volumeBindingMode="WaitForFirstConsumer")


class Fickle(BindPlugin):
    """Comes after the volumes, and fails for some pods, always."""

    name = "fickle"

    async def pre_bind(self, attempt: Attempt) -> None:
        if attempt.pod.metadata.name.startswith("doomed"):
            raise RuntimeError("it was not meant to be")


async def a_scene(dice: Random) -> tuple[Rig, dict[str, str]]:
    """Pods with claims, some of which share one; where each is to be bound."""
    rig = await make_rig([*map(node, NODES), LOCAL, MADE])
    targets: dict[str, str] = {}
    for number in range(6):
        kind = dice.choice(["local", "made"])
        name = dice.choice(["pod", "doomed"]) + f"-{number}"
        target = dice.choice(NODES)
        wanted = claim(kind)
        await rig.apply(replace(wanted, metadata=replace(wanted.metadata, name=f"c{number}")))
        await rig.apply(disk(f"disk-{number}", on=target))
        for each in [name, f"{name}-too"] if dice.random() < 0.3 else [name]:
            await rig.apply(user(each, f"c{number}"))
            targets[each] = target
    return rig, targets


@pytest.mark.parametrize("seed", range(8))
async def test_in_chaos_pods_and_volumes_end_up_together_and_nothing_is_left_of_failures(seed: int) -> None:
    dice = Random(seed)
    rig, targets = await a_scene(dice)
    async with rig.running(VolumeController), rig.running(SimulatedStorage):
        for name, target in targets.items():
            await ask(rig, name, to=target, limit=1 if name.startswith("doomed") else 1000)
        factory = binder(Fickle(), options=Options(volume_binding_timeout_seconds=60))
        for _ in range(dice.randint(1, 4)):  # each of them is killed in the middle of something
            chaos = Chaos(
                dice.randrange(2**32),
                refuse_rate=0.1,
                hang_up_rate=0.1,
                lost_answer_rate=0.1,
                longest_delay_seconds=1.0,
            )
            transport = FaultyTransport(rig.server.transport(), chaos=chaos, clock=rig.clock)
            async with rig.running(factory, transport):
                await asyncio.sleep(dice.uniform(0.0, 8.0))
        async with rig.running(factory):

            async def over() -> bool:
                requests = (await rig.client.list(BindRequest)).items
                ends = {each.spec.podName: each.status.phase for each in requests}
                return ends == {name: "Failed" if name.startswith("doomed") else "Succeeded" for name in targets}

            await rig.until(over)
        await asyncio.sleep(5)  # what the volume controller still has to do
    await check(rig, targets)


async def check(rig: Rig, targets: dict[str, str]) -> None:
    claims = {each.metadata.name: each for each in (await rig.client.list(PersistentVolumeClaim)).items}
    volumes = {each.metadata.name: each for each in (await rig.client.list(PersistentVolume)).items}
    nodes = {name: node(name) for name in NODES}
    bound = [each.spec.volumeName for each in claims.values() if each.spec.volumeName]
    assert len(set(bound)) == len(bound), "a volume went to two claims"
    used: set[str] = set()
    for pod in (await rig.client.list(Pod, NAMESPACE)).items:
        name = pod.metadata.name
        assert pod.spec.nodeName == ("" if name.startswith("doomed") else targets[name])
        source = pod.spec.volumes[0].persistentVolumeClaim
        assert source is not None
        if pod.spec.nodeName:
            own = claims[source.claimName]
            assert is_bound(own)
            assert reaches(nodes[pod.spec.nodeName], volumes[own.spec.volumeName])
            used.add(source.claimName)
    for name, each in claims.items():
        if not is_bound(each):
            assert SELECTED_NODE_ANNOTATION not in each.metadata.annotations, f"{name} is still told a node"
    for volume in volumes.values():
        assert volume.spec.claimRef is None or volume.metadata.name in bound, f"{volume.metadata.name} waits for nobody"
