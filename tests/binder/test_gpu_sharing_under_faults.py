"""Whatever goes wrong at whichever request of a bind: nobody is bound twice, no GPU is given away twice, nothing left.

500 sequences: pods of several groups on one node, some with several devices; faults and deaths of the binder at random
requests, sometimes two binders at once; requests and pods that are deleted, labels that are taken off meanwhile. Once
the faults are over, the cluster has to come to what it would be without them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress

import pytest

from bosket.api import keys
from bosket.api.core import ConfigMap, Pod
from bosket.api.kai import BindRequest
from bosket.api.shared_gpu import gpu_groups
from bosket.kube.errors import NotFound
from bosket.services.binder import Attempt, BindPlugin
from bosket.services.binder.group_state import is_open
from tests.binder.calamity import Calamity, MortalTransport
from tests.binder.scene import binder
from tests.binder.sharing_scene import NODE, NOTHING, node_running, share, sharing_pod, sharing_rig, traces
from tests.rig import NAMESPACE, Rig

pytestmark = [pytest.mark.looptime, pytest.mark.slow]

SEQUENCES = 500
BATCHES = 20

#: Groups of each pod, and its part of each of their GPUs: none is full beyond 100 %.
PODS = {"a": (("g1",), "0.50"), "b": (("g1",), "0.30"), "c": (("g2",), "0.60"), "d": (("g1", "g2"), "0.20")}


class Moody(BindPlugin):
    """The last to prepare a bind: takes its time, and fails at times."""

    name = "moody"
    priority = -1

    def __init__(self, calamity: Calamity) -> None:
        self._calamity = calamity

    async def pre_bind(self, attempt: Attempt) -> None:
        if self._calamity.left > 0:
            await asyncio.sleep(self._calamity.random.choice((0.0, 0.0, 0.5, 3.0)))
            if self._calamity.random.random() < 0.2:
                self._calamity.left -= 1
                raise RuntimeError("not in the mood")


class Story:
    """One sequence."""

    def __init__(self, seed: int, rig: Rig) -> None:
        self.rig = rig
        self.calamity = Calamity(seed, misfortunes=1 + seed % 9, rate=0.15)
        self.random = self.calamity.random
        self.binds: Counter[str] = Counter()
        #: What was wrong at the moment of a bind: raised there it would only fail the bind.
        self.wrong: list[str] = []
        #: Pods whose labels were taken off, and others whose requests may be gone: of a pod without either nobody could
        #: tell its groups.
        self.edited: set[str] = set()
        self.unrequested: set[str] = set()

    async def run(self) -> None:
        async with node_running(self.rig):
            for name, (groups, portion) in PODS.items():
                limit = self.random.choice((None, 1, 3, 100))
                await share(self.rig, name, *groups, portion=portion, limit=limit)
            meddling = asyncio.create_task(self._meddle())
            await self._live_through()
            await meddling
            async with rig_binder(self):
                await self._until_quiet()
                await self._check_outcome()
                for pod in (await self.rig.client.list(Pod, NAMESPACE)).items:
                    await self.rig.client.delete(Pod, pod.metadata.name, NAMESPACE, grace_seconds=0)
                await self._sleep(90)
                assert await traces(self.rig) == NOTHING

    async def _live_through(self) -> None:
        """Binder after binder, until nothing more goes wrong; the old one sometimes lives on beside the new one."""
        async with AsyncExitStack() as overlapping:
            while True:
                stack = AsyncExitStack()
                transport = MortalTransport(self.rig.server.transport(), self.calamity, self.on_bind)
                await stack.enter_async_context(self.rig.running(binder(Moody(self.calamity)), transport))
                death = asyncio.create_task(transport.dead.wait())
                patience = asyncio.create_task(self._sleep(self.random.choice((2.0, 150.0))))
                await asyncio.wait({death, patience}, return_when=asyncio.FIRST_COMPLETED)
                for each in (death, patience):
                    each.cancel()
                if not transport.dead.is_set() and self.calamity.left > 0 and self.random.random() < 0.5:
                    await overlapping.enter_async_context(stack)
                    self.calamity.left -= 1  # so that it comes to an end
                    continue
                await stack.aclose()
                if not transport.dead.is_set():
                    return

    async def _meddle(self) -> None:
        """What users and the scheduler may do at any time."""
        for _ in range(self.random.randrange(3)):
            await self._sleep(self.random.choice((0.0, 0.1, 1.0, 30.0)))
            name = self.random.choice(sorted(PODS))
            kind = self.random.choice((Pod, BindRequest, None))
            with suppress(NotFound):
                if kind is None and name not in self.unrequested:
                    self.edited.add(name)
                    labels = dict.fromkeys(("runai-gpu-group", "runai-gpu-group/g1", "runai-gpu-group/g2"))
                    await self.rig.client.patch(Pod, name, {"metadata": {"labels": labels}}, namespace=NAMESPACE)
                elif kind is Pod or (kind is BindRequest and name not in self.edited):
                    self.unrequested.add(name)
                    await self.rig.client.delete(kind, name, NAMESPACE)

    async def on_bind(self, name: str) -> None:
        pod = await self.rig.client.get(Pod, name, NAMESPACE)
        self.binds[pod.metadata.uid] += 1
        try:
            assert self.binds[pod.metadata.uid] == 1, f"{name} was bound twice"
            await self._check_devices()
        except (AssertionError, NotFound) as error:
            self.wrong.append(str(error))

    async def _check_devices(self) -> None:
        """No device is shared beyond 100 %, and none is held by two reservations."""
        load: defaultdict[str, float] = defaultdict(float)
        for pod in (await self.rig.client.list(Pod, NAMESPACE)).items:
            if pod.spec.nodeName and pod.status.phase not in ("Succeeded", "Failed"):
                for device in await self._visible(pod.metadata.name):
                    load[device] += float(PODS[pod.metadata.name][1])
        assert all(part <= 1.0001 for part in load.values()), load
        devices = [device for device in (await traces(self.rig)).reservations.values() if device]
        assert len(set(devices)) == len(devices), devices
        assert set(load) <= set(devices), "somebody uses a device that nobody holds"

    async def _visible(self, name: str) -> list[str]:
        found = await self.rig.client.get(ConfigMap, f"{name}-shared-gpu-0-evar", NAMESPACE)
        return found.data["NVIDIA_VISIBLE_DEVICES"].split(",")

    async def _until_quiet(self) -> None:
        async def quiet() -> bool:
            return not any(map(is_open, (await self.rig.client.list(BindRequest, NAMESPACE)).items))

        while not await quiet():
            await self._sleep(5)
        await self._sleep(90)

    async def _check_outcome(self) -> None:
        assert self.wrong == []
        await self._check_devices()
        expected: set[str] = set()
        left = await traces(self.rig)
        maps = set(left.maps)
        for pod in (await self.rig.client.list(Pod, NAMESPACE)).items:
            name = pod.metadata.name
            own = {f"{name}-shared-gpu-0", f"{name}-shared-gpu-0-evar"}
            assert not any(key.startswith("bosket.dev/gpu-groups") for key in pod.metadata.annotations)
            if pod.spec.nodeName:
                assert gpu_groups(pod.metadata.labels) == PODS[name][0]
                devices = await self._visible(name)
                assert devices == [left.reservations[group] for group in PODS[name][0]]
                assert pod.metadata.annotations[keys.SHARED_DEVICES_ANNOTATION].split(",") == devices
                assert own <= maps
                maps -= own
                expected |= set(PODS[name][0])
            else:
                assert not gpu_groups(pod.metadata.labels), f"{name} is left with labels"
                assert not own & maps, f"{name} is left with config maps"
        assert set(left.reservations) == expected
        assert not maps
        for request in (await self.rig.client.list(BindRequest, NAMESPACE)).items:
            limit = request.spec.backoffLimit or 1
            assert request.status.failedAttempts <= limit
            if request.status.phase == "Succeeded":
                assert (await self.rig.client.get(Pod, request.spec.podName, NAMESPACE)).spec.nodeName == NODE

    async def _sleep(self, seconds: float) -> None:
        await self.rig.clock.sleep(seconds)


def rig_binder(story: Story) -> AbstractAsyncContextManager[object]:
    """A binder to whom nothing happens any more."""
    transport = MortalTransport(story.rig.server.transport(), story.calamity, story.on_bind)
    story.calamity.left = 0
    return story.rig.running(binder(), transport)


@pytest.fixture(autouse=True)
def _quietly() -> Iterator[None]:
    """Thousands of errors are on purpose, and to write them down takes a third of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("batch", range(BATCHES))
async def test_after_any_sequence_of_faults_the_cluster_is_as_it_should_be(batch: int) -> None:
    for seed in range(batch, SEQUENCES, BATCHES):
        random.seed(seed)  # pauses between attempts are spread at random too
        rig = await sharing_rig(
            *(sharing_pod(name, fraction=portion, devices=len(groups)) for name, (groups, portion) in PODS.items())
        )
        try:
            await Story(seed, rig).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
