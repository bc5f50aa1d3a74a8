"""Services of one process start together, are kept alive, and end in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from bosket.api.coordination import Lease
from bosket.api.core import ConfigMap, Event, Pod
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.events import EventRecorder
from bosket.runtime.health import Address
from bosket.runtime.service import Environment, run_services, stop_on_signals
from tests.runtime.cluster import Cluster


def environment(cluster: Cluster, client: Client | None = None, identity: str = "me") -> Environment:
    client = client or cluster.client
    return Environment(
        client=client,
        informers=Informers(client),
        clock=cluster.clock,
        events=EventRecorder(client, cluster.clock, "test"),
        metrics=CollectorRegistry(),
        identity=identity,
    )


@dataclass
class Recorded:
    """A service that notes when it starts and ends; `act` is what it does the n-th time."""

    name: str
    act: Callable[[int], None] = lambda _: None
    log: list[str] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self.log.append("start")
        try:
            self.act(self.log.count("start"))
            self.started.set()
            await asyncio.Event().wait()
        finally:
            self.log.append("end")


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.looptime
async def test_informers_and_events_serve_every_service() -> None:
    cluster = await Cluster().start()
    env = environment(cluster)
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))

    class Watching(Recorded):
        async def run(self) -> None:
            informer = env.informers.of(ConfigMap)
            await informer.wait_synced()
            assert len(informer.store) == 1
            await super().run()

    service = Watching("watching")
    task = asyncio.create_task(run_services(env, [service], leader_election=False))
    await asyncio.wait_for(service.started.wait(), 5)
    await stop(task)


@pytest.mark.looptime
async def test_a_service_that_fails_is_started_again_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail_twice(attempt: int) -> None:
        if attempt < 3:
            raise RuntimeError(f"attempt {attempt}")

    cluster = await Cluster().start()
    env = environment(cluster)
    flaky, steady = Recorded("flaky", fail_twice), Recorded("steady")
    task = asyncio.create_task(run_services(env, [flaky, steady], leader_election=False))
    await asyncio.wait_for(flaky.started.wait(), 10)
    assert flaky.log.count("start") == 3
    assert steady.log == ["start"]
    assert env.metrics.get_sample_value("bosket_service_restarts_total", {"service": "flaky"}) == 2
    assert "attempt 2" in caplog.text
    await stop(task)
    assert steady.log == ["start", "end"]


@pytest.mark.looptime
async def test_a_cancellation_inside_a_service_restarts_it_and_stops_nothing() -> None:
    def cancel_once(attempt: int) -> None:
        if attempt == 1:
            raise asyncio.CancelledError

    cluster = await Cluster().start()
    service = Recorded("odd", cancel_once)
    task = asyncio.create_task(run_services(environment(cluster), [service], leader_election=False))
    await asyncio.wait_for(service.started.wait(), 5)
    await stop(task)


@pytest.mark.looptime
async def test_services_that_end_by_themselves_end_the_run() -> None:
    cluster = await Cluster().start()

    class Brief:
        name = "brief"

        async def run(self) -> None:
            await asyncio.sleep(1)

    await asyncio.wait_for(run_services(environment(cluster), [Brief(), Brief()], leader_election=False), 5)


@pytest.mark.looptime
async def test_what_a_service_reports_while_it_ends_is_still_written() -> None:
    cluster = await Cluster().start()
    env = environment(cluster)

    class Farewell(Recorded):
        async def run(self) -> None:
            try:
                await super().run()
            finally:
                regarding = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u"))
                env.events.event(regarding, "Normal", "Stopping", "goodbye")

    service = Farewell("farewell")
    task = asyncio.create_task(run_services(env, [service], leader_election=False))
    await service.started.wait()
    await stop(task)
    assert [each.reason for each in (await cluster.client.list(Event)).items] == ["Stopping"]


@pytest.mark.looptime
async def test_a_service_that_will_not_end_does_not_hold_the_stop_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await Cluster().start()
    release = asyncio.Event()

    class Stubborn(Recorded):
        async def run(self) -> None:
            self.started.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

    service = Stubborn("stubborn")
    task = asyncio.create_task(run_services(environment(cluster), [service], leader_election=False, stop_seconds=3))
    await service.started.wait()
    begun = cluster.clock.monotonic()
    await stop(task)
    assert cluster.clock.monotonic() - begun == pytest.approx(3)
    assert "did not stop in time" in caplog.text
    release.set()


@pytest.mark.looptime
async def test_with_leader_election_each_service_runs_in_one_process_only() -> None:
    cluster = await Cluster().start("kai-scheduler")
    ours, theirs = Recorded("scheduler"), Recorded("scheduler")
    first = asyncio.create_task(run_services(environment(cluster, identity="1"), [ours], leader_election=True))
    await ours.started.wait()
    second = asyncio.create_task(run_services(environment(cluster, identity="2"), [theirs], leader_election=True))
    await asyncio.sleep(60)
    assert not theirs.started.is_set()
    assert (await cluster.client.get(Lease, "scheduler", "kai-scheduler")).spec.holderIdentity == "1"
    await stop(first)
    await asyncio.wait_for(theirs.started.wait(), 6)
    await stop(second)
    assert not (await cluster.client.get(Lease, "scheduler", "kai-scheduler")).spec.holderIdentity


@pytest.mark.looptime
async def test_a_leader_that_loses_and_regains_the_lease_runs_its_service_again() -> None:
    cluster = await Cluster().start("kai-scheduler")
    wire, client = cluster.wire()
    env = environment(cluster, client)
    service = Recorded("scheduler")
    task = asyncio.create_task(run_services(env, [service], leader_election=True))
    await service.started.wait()
    wire.cut = True
    await asyncio.sleep(30)
    assert service.log == ["start", "end"]
    assert env.metrics.get_sample_value("leader_election_master_status", {"name": "scheduler"}) == 0
    wire.cut = False
    await asyncio.sleep(30)
    assert service.log == ["start", "end", "start"]
    assert env.metrics.get_sample_value("leader_election_master_status", {"name": "scheduler"}) == 1
    await stop(task)


async def test_readiness_follows_the_informers(unused_tcp_port: int) -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    wire.stuck = True
    env = environment(cluster, client)
    env.informers.of(ConfigMap)
    service = Recorded("any")
    address = Address(port=unused_tcp_port)
    task = asyncio.create_task(run_services(env, [service], leader_election=False, health=[address]))
    await service.started.wait()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{unused_tcp_port}") as session:
        async with session.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "informers: not ready\n")
        async with session.get("/healthz") as answer:
            assert answer.status == 200
    await stop(task)


async def test_a_signal_stops_the_block_in_order_and_without_an_error() -> None:
    log: list[str] = []
    with stop_on_signals((signal.SIGUSR1,)):
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            log.append("cleaned up")
    log.append("went on")
    assert log == ["cleaned up", "went on"]
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_cancellation_that_is_no_signal_passes_through() -> None:
    async def body() -> None:
        with stop_on_signals((signal.SIGUSR1,)):
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await asyncio.sleep(0)
    await stop(task)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_a_second_signal_ends_the_process_at_once_even_if_it_is_stuck() -> None:
    program = """
import asyncio, os, signal, time
from bosket.runtime.service import stop_on_signals
async def main():
    with stop_on_signals():
        try:
            print("running", flush=True)
            await asyncio.sleep(60)
        finally:
            print("stopping", flush=True)
            time.sleep(60)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=50) == -signal.SIGINT  # before it has slept for a minute
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
