"""Fair shares in the status of queues, on virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bosket.api.kai import Queue
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.loop import service
from bosket.scheduler.options import Options
from bosket.testing.build import job, node, queue
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


def scheduler(env: Any) -> Any:
    return service(env, Options())


async def shares(rig: Rig) -> dict[str, float]:
    found = (await rig.client.list(Queue)).items
    return {each.metadata.name: each.status.fairShare.gpu for each in found if each.status.fairShare is not None}


async def test_queues_say_what_they_may_count_on_and_are_not_written_while_nothing_changes() -> None:
    rig = await make_rig([node("n1", gpus=8), queue("a", quota=0), queue("b", quota=2)])
    await rig.apply(
        *job("a1", gpus=8, queue="a", namespace=NAMESPACE), *job("b1", gpus=2, queue="b", namespace=NAMESPACE)
    )
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/queues/")
    async with rig.running(scheduler, transport):

        async def are_written() -> bool:
            return await shares(rig) == {"a": 6, "b": 2}

        await rig.until(are_written)
        before = sum(map(writes, transport.requests))
        for number in range(30):  # the shares stay
            await rig.apply(*job(f"more-{number}", gpus=1, queue="a", namespace=NAMESPACE))
            await rig.clock.sleep(20)
        assert sum(map(writes, transport.requests)) == before == 2
        began = rig.clock.monotonic()
        await rig.client.create(node("n2", gpus=8))

        async def have_grown() -> bool:
            return (await shares(rig))["a"] == 14

        await rig.until(have_grown)
        assert rig.clock.monotonic() - began < 30


async def test_a_scheduler_that_may_not_write_queues_asks_once_for_each() -> None:
    rig = await make_rig([node("n1", gpus=8), queue("a"), queue("b")])
    await rig.apply(*job("a1", gpus=8, queue="a", namespace=NAMESPACE))
    transport = FaultyTransport(rig.server.transport())
    writes = matching("PATCH", "/queues/")
    transport.add(refuse(writes, 403, times=None))
    async with rig.running(scheduler, transport):
        for number in range(20):
            await rig.apply(*job(f"more-{number}", gpus=1, queue="a", namespace=NAMESPACE))
            await rig.clock.sleep(30)
    assert sum(map(writes, transport.requests)) == 2


async def test_without_a_plugin_that_divides_shares_nothing_is_written_and_nothing_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    without = tuple(each for each in Configuration().plugins if each.name != "proportion")
    rig = await make_rig([node("n1", gpus=8), queue("a"), *job("a1", gpus=8, queue="a", namespace=NAMESPACE)])
    options = Options(configuration=replace(Configuration(), plugins=without))
    transport = FaultyTransport(rig.server.transport())
    async with rig.running(lambda env: service(env, options), transport) as running:
        await rig.clock.sleep(60)
        assert not running.done()
    assert not any(map(matching("PATCH", "/queues/"), transport.requests))
    assert "could not be written" not in caplog.text
