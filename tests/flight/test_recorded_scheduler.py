"""The running scheduler records its cycles, and goes on where it can't."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.runtime.service import Environment
from bosket.scheduler.answers.flight_replay import Replay
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.options import Options
from bosket.scheduler.recording.flight.reader import FlightRecording, Moment
from bosket.testing.build import gang, node, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


def recorded(env: Environment, folder: Path) -> Scheduler:
    return service(env, Options(recording=folder))


async def carry_out(rig: Rig) -> None:
    """What binder and kubelet do."""
    for request in (await rig.client.list(BindRequest, NAMESPACE)).items:
        pod = await rig.client.get(Pod, request.spec.podName, NAMESPACE)
        if not pod.spec.nodeName:
            await rig.client.bind(pod, request.spec.selectedNode)
            status = {"status": {"phase": "Running"}}
            await rig.client.patch(Pod, pod.metadata.name, status, namespace=NAMESPACE, subresource="status")
        await rig.client.delete(BindRequest, request.metadata.name, NAMESPACE)


async def test_cycles_with_reclaim_and_gangs_come_out_the_same_again(tmp_path: Path) -> None:
    queues = (queue("a", quota=2), queue("b", quota=2))
    rig = await make_rig([node("n1", gpus=4), *queues])
    async with rig.running(partial(recorded, folder=tmp_path)):
        for number in range(4):
            await rig.apply(pod_group(f"a{number}", namespace=NAMESPACE, queue="a"))
            await rig.apply(*gang(f"a{number}", 1, namespace=NAMESPACE))
        await rig.until(lambda: requests(rig))
        await carry_out(rig)
        await rig.clock.sleep(5)
        await carry_out(rig)
        await rig.apply(pod_group("b", min_member=2, namespace=NAMESPACE, queue="b"))
        await rig.apply(*gang("b", 2, namespace=NAMESPACE))
        await rig.clock.sleep(30)
        await carry_out(rig)
        await rig.clock.sleep(5)
    folder = tmp_path / "kai-scheduler"
    replay = Replay()
    found = list(replay.run(FlightRecording(folder), 0.0, math.inf))
    assert [each.moment.cycle.number for each in found if not each.is_same] == []
    assert replay.left_out == 0
    assert sum(len(each.then.binds) for each in found) == 4
    assert sum(len(each.then.evictions) for each in found) == 2


async def requests(rig: Rig) -> bool:
    return len((await rig.client.list(BindRequest, NAMESPACE)).items) == 4


async def test_every_cycle_has_its_time_and_what_it_saw(tmp_path: Path) -> None:
    rig = await make_rig([node("n1", gpus=4), queue("q")])
    async with rig.running(partial(recorded, folder=tmp_path)):
        await rig.clock.sleep(2)
        await rig.apply(pod_group("g", namespace=NAMESPACE), *gang("g", 1, namespace=NAMESPACE))
        await rig.clock.sleep(2)
    moments = [each for each in FlightRecording(tmp_path / "kai-scheduler").cycles() if isinstance(each, Moment)]
    times = [each.cycle.time for each in moments]
    assert times == sorted(times)
    assert [len(each.recorded.objects["pods"]) for each in moments][-1] == 1
    assert len(moments[0].recorded.objects["pods"]) == 0


async def test_each_shard_has_a_part_of_its_own(tmp_path: Path) -> None:
    rig = await make_rig([node("n1", gpus=4), queue("q")])
    for pool in ("", "east"):
        options = Options(recording=tmp_path, node_pool=pool)
        async with rig.running(partial(service, options=options)):
            await rig.clock.sleep(2)
    assert names(tmp_path) == ["kai-scheduler", "kai-scheduler-east"]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())
