"""One misfortune of each sort at each request of a bind that shares a GPU: in the end all is as if nothing had been."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bosket.api.kai import BindRequest
from bosket.embedded.gpu_devices import device_uuid
from tests.binder.calamity import FATES, Calamity, MortalTransport
from tests.binder.scene import binder, finished
from tests.binder.sharing_scene import (
    NODE,
    NOTHING,
    Traces,
    delete_pod,
    maps_of,
    node_running,
    settled_to,
    share,
    sharing_rig,
    the_pod,
    traces,
)
from tests.rig import NAMESPACE, Rig

pytestmark = [pytest.mark.looptime, pytest.mark.slow]

DEVICE = device_uuid(NODE, 0)


class Fate(Calamity):
    """Strikes the n-th request, and no other."""

    def __init__(self, fate: str, number: int) -> None:
        super().__init__(0, misfortunes=0, rate=0.0)
        self._fate = fate
        self._until = number

    def pick(self) -> str | None:
        self._until -= 1
        if self._until:
            return None
        self.struck[self._fate] += 1
        return self._fate


async def bind_in_spite_of(rig: Rig, fate: Fate) -> Mapping[str, int]:
    """Binder after binder until the pod is bound; how often each was bound."""
    binds: dict[str, int] = {}

    async def count(name: str) -> None:
        binds[name] = binds.get(name, 0) + 1

    done = False
    while not done:
        transport = MortalTransport(rig.server.transport(), fate, count)
        async with rig.running(binder(), transport):

            async def over(transport: MortalTransport = transport) -> bool:
                return transport.dead.is_set() or bool(await _succeeded(rig))

            await rig.until(over)
            done = not transport.dead.is_set()
            if done:
                await rig.clock.sleep(10)
    return binds


async def _succeeded(rig: Rig) -> bool:
    return (await rig.client.get(BindRequest, "a", NAMESPACE)).status.phase == "Succeeded"


@pytest.mark.parametrize("kind", FATES)
async def test_a_misfortune_at_any_request_changes_nothing_in_the_end(kind: str) -> None:
    number = 0
    struck = True
    while struck:
        number += 1
        rig = await sharing_rig()
        await share(rig, "a", "g", limit=100)
        fate = Fate(kind, number)
        async with node_running(rig):
            binds = await bind_in_spite_of(rig, fate)
            struck = bool(fate.struck)
            await finished(rig)
            assert binds == {"a": 1}
            assert await traces(rig) == Traces(
                {"g": DEVICE}, {"a": ("g",)}, frozenset({"a-shared-gpu-0", "a-shared-gpu-0-evar"})
            )
            assert await maps_of(rig) == (
                {"GPU_PORTION": "0.25", "RUNAI_NUM_OF_GPUS": "0.25"},
                {"NVIDIA_VISIBLE_DEVICES": DEVICE},
            )
            assert (await the_pod(rig)).metadata.labels == {"kept": "yes", "runai-gpu-group": "g"}
            async with rig.running(binder()):
                await delete_pod(rig, "a")
                await settled_to(rig, NOTHING)
    assert number > 10
