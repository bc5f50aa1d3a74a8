"""The running scheduler asks for usage in the background, and goes on whatever comes of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bosket.api.kai import BindRequest, UsageDBConfig, UsageParams
from bosket.runtime.service import Environment
from bosket.scheduler import loop
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.options import Options
from bosket.scheduler.usage.history import Sample
from bosket.scheduler.usage.source import UsageUnavailable
from bosket.scheduler.usage.stores import FakeUsage
from bosket.testing.build import gang, node, pod, pod_group, queue
from tests.rig import NAMESPACE, Rig, make_rig

pytestmark = pytest.mark.looptime


class Live:
    """A scheduler with a usage database."""

    def __init__(self, rig: Rig, source: Broken | FakeUsage | Slow | None, **params: Any) -> None:
        self.rig = rig
        config = UsageDBConfig(clientType="fake", usageParams=UsageParams(**params))
        self._options = Options(configuration=Configuration(usage_db=config), usage_source=source)
        self.cycles = 0

    def __call__(self, env: Environment) -> loop.Scheduler:
        self.env = env
        self.scheduler = loop.service(env, self._options)
        decided = self.scheduler._metrics.decided

        def count(*arguments: Any) -> None:
            self.cycles += 1
            decided(*arguments)

        self.scheduler._metrics.decided = count  # type: ignore[method-assign, assignment]
        return self.scheduler

    def value(self, name: str, **labels: str) -> Any:
        return self.env.metrics.get_sample_value(f"kai_{name}", labels)

    def share(self, name: str) -> Any:
        labels = {"queue_name": name, "queue_metadata_name": name, "queue_display_name": ""}
        return self.value("queue_fair_share_gpu", **labels)

    def usage(self, name: str) -> Any:
        labels = {"queue_name": name, "queue_metadata_name": name, "queue_display_name": ""}
        return self.value("queue_gpu_usage", **labels)


async def contended(gpus: int = 4) -> Rig:
    """A node, and two queues with two jobs each that want all of it."""
    requests = [
        each
        for name in ("a", "b")
        for each in (
            pod_group(name, queue=name, namespace=NAMESPACE),
            *gang(name, 1, gpus=gpus, namespace=NAMESPACE),
            pod_group(f"{name}2", queue=name, namespace=NAMESPACE),
            *gang(f"{name}2", 1, gpus=gpus, namespace=NAMESPACE),
        )
    ]
    return await make_rig([node("n", gpus=gpus), queue("a", quota=0), queue("b", quota=0), *requests])


async def test_the_first_cycle_waits_for_the_first_answer_and_decides_by_it() -> None:
    source = Slow(FakeUsage({"a": (0.75, 0.0, 0.0), "b": (0.25, 0.0, 0.0)}), seconds=5)
    rig = await contended()
    live = Live(rig, source)
    async with rig.running(live):
        await rig.clock.sleep(4)
        assert live.cycles == 0
        requests = await rig.until(lambda: bound(rig))
        assert {each.spec.podName for each in requests} == {"b-0"}
        assert (live.share("a"), live.share("b")) == (1.0, 3.0)
        assert (live.usage("a"), live.usage("b")) == (0.75, 0.25)
        assert live.value("usage_query_latency_milliseconds_sum") == pytest.approx(5000)


async def bound(rig: Rig) -> list[BindRequest]:
    return (await rig.client.list(BindRequest, NAMESPACE)).items


class Slow:
    """A store that takes its time."""

    def __init__(self, inner: FakeUsage, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds

    async def fetch(self, now: float) -> Usage:
        await asyncio.sleep(self._seconds)
        return await self._inner.fetch(now)

    async def aclose(self) -> None:
        pass


async def test_without_an_answer_scheduling_begins_after_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    rig = await contended()
    live = Live(rig, FakeUsage(failure="no route to host"), waitTimeout="20s")
    async with rig.running(live):
        await rig.clock.sleep(19)
        assert live.cycles == 0
        await rig.until(lambda: bound(rig))
        assert rig.clock.monotonic() < 25
        assert live.value("usage_age_seconds") is None
        assert live.usage("a") is None
    assert "the usage of queues is not known yet; scheduling without usage" in caplog.messages


async def test_it_is_asked_every_interval_and_other_usage_is_decided_on_once() -> None:
    source = FakeUsage({"a": (0.5, 0.0, 0.0), "b": (0.5, 0.0, 0.0)})
    rig = await contended()
    live = Live(rig, source, fetchInterval="30s")
    async with rig.running(live):
        await rig.until(lambda: bound(rig))
        await rig.clock.sleep(40)
        asked, cycles = source.asked, live.cycles
        await rig.clock.sleep(300)
        assert (source.asked - asked, live.cycles - cycles) == (10, 0)  # the same usage: nothing to decide
        source.parts = {"a": (0.25, 0.0, 0.0), "b": (0.75, 0.0, 0.0)}
        await rig.clock.sleep(32)
        assert live.cycles - cycles == 1
        assert (live.share("a"), live.share("b")) == (3.0, 1.0)
        await rig.clock.sleep(300)
        assert live.cycles - cycles == 1


async def test_while_nothing_waits_usage_changes_without_a_cycle() -> None:
    source = FakeUsage({"a": (0.5, 0.0, 0.0)})
    runs = pod("a-0", NAMESPACE).gpu(1).of_group("a").running_on("n").build()
    rig = await make_rig([node("n"), queue("a"), pod_group("a", queue="a", namespace=NAMESPACE), runs])
    live = Live(rig, source)
    async with rig.running(live):
        await rig.clock.sleep(10)
        cycles = live.cycles
        for step in range(5):
            source.parts = {"a": (0.1 * step, 0.0, 0.0)}
            await rig.clock.sleep(60)
        assert live.cycles == cycles
        assert live.usage("a") == pytest.approx(0.4)


async def test_an_outage_leaves_what_was_known_and_its_age_grows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = FakeUsage({"a": (0.75, 0.0, 0.0), "b": (0.25, 0.0, 0.0)})
    rig = await contended()
    live = Live(rig, source)
    async with rig.running(live):
        await rig.until(lambda: bound(rig))
        await rig.clock.sleep(55)
        source.failure = "connection refused"
        await rig.clock.sleep(1200)
        assert live.value("usage_age_seconds") == pytest.approx(1200, abs=65)
        assert live.value("usage_query_failures_total") > 20
        assert live.usage("a") == 0.75
        cycles = live.cycles
        await rig.client.create(pod_group("late", queue="a", namespace=NAMESPACE))
        await rig.client.create(pod("late-0", NAMESPACE).gpu(1).of_group("late").build())
        await rig.clock.sleep(5)
        assert live.cycles > cycles
        assert (live.share("a"), live.share("b")) == (1.0, 3.0)
        source.failure = ""
        await rig.clock.sleep(61)
        assert live.value("usage_age_seconds") < 61
    said = [record.getMessage() for record in caplog.records if record.name.endswith("usage.live")]
    assert said == [
        "asking what queues used failed; what was known before goes on to count",
        "what is known of the use of queues is stale; it goes on to count",
        "asking what queues used works again",
    ]


async def test_questions_after_a_failure_come_soon_and_then_further_apart() -> None:
    source = FakeUsage(failure="refused")
    rig = await contended()
    async with rig.running(Live(rig, source)):
        await rig.clock.sleep(2)
        assert source.asked >= 2
        await rig.clock.sleep(600)
        early = source.asked
        await rig.clock.sleep(600)
        assert 10 <= source.asked - early <= 14  # no further apart than the interval, less some jitter


async def test_an_answer_that_does_not_come_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    rig = await contended()
    live = Live(rig, Slow(FakeUsage(), seconds=3600), extraParams={"usageQueryTimeout": "7s"}, waitTimeout="10s")
    async with rig.running(live):
        await rig.until(lambda: bound(rig))
        assert live.value("usage_query_failures_total") == 1
    (failed,) = (record for record in caplog.records if "asking what queues used failed" in record.getMessage())
    assert getattr(failed, "error", None) == "no answer within 7s"


class Broken:
    """A store with a bug, that also wants samples."""

    sample_interval_seconds = 60.0

    async def fetch(self, now: float) -> Usage:
        raise KeyError("queue")

    async def record(self, sample: Sample) -> None:
        raise UsageUnavailable("disk full")

    async def aclose(self) -> None:
        pass


async def test_a_store_with_a_bug_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    rig = await contended()
    async with rig.running(Live(rig, Broken(), waitTimeout="1s")) as task:
        await rig.until(lambda: bound(rig))
        await rig.clock.sleep(300)
        assert not task.done()
    errors = {
        record.error for record in caplog.records if record.name.endswith("usage.live") and hasattr(record, "error")
    }
    assert errors == {"KeyError: 'queue'", "disk full"}


async def test_the_built_in_store_counts_what_queues_hold() -> None:
    """Queue a holds the whole cluster from the first minute on; b, which waits, may count on all that is over quota."""
    rig = await contended()
    config = UsageDBConfig(
        clientType="builtin", usageParams=UsageParams(windowSize="1h", extraParams={"queryResolution": "10s"})
    )
    live = Live(rig, None)
    live._options = Options(configuration=Configuration(actions=("allocate",), usage_db=config))
    async with rig.running(live):
        await rig.until(lambda: bound(rig))
        assert (live.share("a"), live.share("b")) == (2.0, 2.0)
        await rig.clock.sleep(600)
        assert live.usage("a") == pytest.approx(1.0, abs=0.05)
        assert live.usage("b") == 0
        assert (live.share("a"), live.share("b")) == (0.0, 4.0)
