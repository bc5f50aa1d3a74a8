"""Events reach `kubectl describe` once per thing that happened, and never hold up or break who reports them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bosket.api.core import Event, Namespace, Node, Pod
from bosket.api.object import KubeObject, ObjectMeta
from bosket.kube.client import Client
from bosket.runtime.events import EventRecorder
from tests.runtime.cluster import Cluster

pytestmark = pytest.mark.looptime


def a_pod(name: str = "p") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resourceVersion="7"))


@asynccontextmanager
async def recording(cluster: Cluster, client: Client | None = None, **options: Any) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client or cluster.client, cluster.clock, "kai-scheduler", **options)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def events(cluster: Cluster) -> list[Event]:
    return sorted((await cluster.client.list(Event)).items, key=lambda event: event.metadata.name)


async def test_an_event_is_about_its_object_and_says_who_reports_what() -> None:
    cluster = await Cluster().start()
    async with recording(cluster) as recorder:
        recorder.event(a_pod(), "Warning", "Unschedulable", "no node has 8 GPUs", {"kai.scheduler/detail": "x"})
    (event,) = await events(cluster)
    regarding = event.involvedObject
    assert (regarding.apiVersion, regarding.kind, regarding.namespace, regarding.name, regarding.uid) == (
        "v1",
        "Pod",
        "default",
        "p",
        "uid-p",
    )
    assert (event.type, event.reason, event.message, event.count) == (
        "Warning",
        "Unschedulable",
        "no node has 8 GPUs",
        1,
    )
    assert event.source.component == event.reportingComponent == "kai-scheduler"
    assert event.metadata.annotations == {"kai.scheduler/detail": "x"}
    assert event.metadata.name.startswith("p.")


async def test_equal_events_are_counted_in_one_and_different_ones_are_not() -> None:
    cluster = await Cluster().start()
    async with recording(cluster) as recorder:
        for _ in range(3):
            recorder.event(a_pod(), "Normal", "Waiting", "for its gang")
            await asyncio.sleep(10)
        recorder.event(a_pod(), "Normal", "Waiting", "for a quota")
        recorder.event(a_pod("q"), "Normal", "Waiting", "for its gang")
        recorder.for_component("binder").event(a_pod(), "Normal", "Waiting", "for its gang")
    found = {(each.involvedObject.name, each.message, each.source.component): each for each in await events(cluster)}
    assert len(found) == 4
    repeated = found["p", "for its gang", "kai-scheduler"]
    assert repeated.count == 3
    assert repeated.firstTimestamp == "2025-01-01T00:00:00Z"
    assert repeated.lastTimestamp == "2025-01-01T00:00:20Z"
    assert found["p", "for its gang", "binder"].count == 1


async def test_repeats_before_the_first_write_cost_one_write() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client) as recorder:
        for _ in range(20):
            recorder.event(a_pod(), "Normal", "Waiting", "for its gang")
    (event,) = await events(cluster)
    assert event.count == 20
    assert len(wire.writes()) == 1


async def test_an_event_that_the_server_has_forgotten_is_made_again() -> None:
    cluster = await Cluster().start()
    async with recording(cluster) as recorder:
        recorder.event(a_pod(), "Normal", "Waiting", "for its gang")
        await asyncio.sleep(1)
        await cluster.client.delete_collection(Event, "default")
        recorder.event(a_pod(), "Normal", "Waiting", "for its gang")
    (event,) = await events(cluster)
    assert event.count == 2


async def test_an_object_that_talks_too_much_is_heard_less_and_its_count_stays_true() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client, burst=5, refill_seconds=300) as recorder:
        for _ in range(100):
            recorder.event(a_pod("loud"), "Normal", "Again", "and again")
            await asyncio.sleep(1)
        assert len(wire.writes()) == 5
        for number in range(10):
            recorder.event(a_pod("loud"), "Normal", "Other", f"thing {number}")
        recorder.event(a_pod("quiet"), "Normal", "Once", "only")
        await asyncio.sleep(1)
        assert {each.involvedObject.name for each in await events(cluster)} == {"loud", "quiet"}
        await asyncio.sleep(600)
        recorder.event(a_pod("loud"), "Normal", "Again", "and again")
    counts = {each.reason: each.count for each in await events(cluster)}
    assert counts == {"Again": 101, "Once": 1}


async def test_an_outage_delays_events_and_loses_none() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client) as recorder:
        wire.cut = True
        for number in range(5):
            recorder.event(a_pod(f"p{number}"), "Normal", "Bound", "to a node")
        await asyncio.sleep(20)
        wire.cut = False
        await asyncio.sleep(20)
        assert len(await events(cluster)) == 5


async def test_an_event_whose_answer_was_lost_is_not_written_twice() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client) as recorder:
        wire.deaf = True
        recorder.event(a_pod(), "Normal", "Bound", "to a node")
        await asyncio.sleep(2)
        wire.deaf = False
        await asyncio.sleep(20)
    assert len(await events(cluster)) == 1


async def test_what_is_noted_before_the_stop_is_written_in_the_stop_unless_the_server_hangs() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client) as recorder:
        for number in range(50):
            recorder.event(a_pod(f"p{number}"), "Normal", "Bound", "to a node")
    assert len(await events(cluster)) == 50
    begun = cluster.clock.monotonic()
    async with recording(cluster, client, flush_seconds=5) as recorder:
        wire.stuck = True
        recorder.event(a_pod(), "Normal", "Bound", "to a node")
        await asyncio.sleep(1)
    assert cluster.clock.monotonic() - begun == pytest.approx(6)


async def test_a_recorder_that_stops_while_the_server_is_away_leaves_no_task_behind() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    before = asyncio.all_tasks()
    async with recording(cluster, client) as recorder:
        wire.cut = True
        recorder.event(a_pod(), "Normal", "Bound", "to a node")
        await asyncio.sleep(1)
    assert asyncio.all_tasks() == before


async def test_memory_is_bounded_also_while_nothing_can_be_written() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client, capacity=10) as recorder:
        wire.cut = True
        for number in range(1000):
            recorder.event(a_pod(f"p{number}"), "Normal", "Bound", "to a node")
        wire.cut = False
        await asyncio.sleep(60)
        assert len(await events(cluster)) == 10
        for number in range(1000, 1100):
            recorder.event(a_pod(f"p{number}"), "Normal", "Bound", "to a node")
            await asyncio.sleep(1)
        assert len(await events(cluster)) == 110
        assert len(recorder._entries) <= 10
        assert len(recorder._buckets) <= 10


async def test_what_the_server_refuses_for_good_is_dropped_and_the_rest_goes_on() -> None:
    cluster = await Cluster().start()
    wire, client = cluster.wire()
    async with recording(cluster, client) as recorder:
        lost = Pod(metadata=ObjectMeta(name="p", namespace="nowhere", uid="u"))
        recorder.event(lost, "Normal", "Bound", "to a node")
        recorder.event(a_pod(), "Normal", "Bound", "to a node")
        await asyncio.sleep(100)
    assert [each.metadata.namespace for each in await events(cluster)] == ["default"]
    assert len(wire.writes()) == 2


async def test_a_namespace_that_is_being_deleted_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await Cluster().start()
    await cluster.client.create(Namespace(metadata=ObjectMeta(name="going", finalizers=("example.com/wait",))))
    await cluster.client.delete(Namespace, "going")
    async with recording(cluster) as recorder:
        for namespace in ("going", "gone"):
            metadata = ObjectMeta(name="p", namespace=namespace, uid=f"uid-{namespace}", resourceVersion="7")
            recorder.event(Pod(metadata=metadata), "Warning", "Odd", "something happened")
        await asyncio.sleep(5)
    assert await events(cluster) == []
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def test_a_cluster_scoped_object_s_events_are_in_the_default_namespace() -> None:
    cluster = await Cluster().start()
    async with recording(cluster) as recorder:
        recorder.event(Node(metadata=ObjectMeta(name="n", uid="u")), "Normal", "Ready", "it is")
    (event,) = await events(cluster)
    assert (event.metadata.namespace, event.involvedObject.namespace) == ("default", "")


async def test_the_reporter_never_sees_an_error(caplog: pytest.LogCaptureFixture) -> None:
    cluster = await Cluster().start()
    recorder = EventRecorder(cluster.client, cluster.clock, "kai-scheduler")
    recorder.event(KubeObject(metadata=ObjectMeta(name="of no kind")), "Normal", "Odd", "object")
    assert "event not recorded" in caplog.text


async def test_names_stay_legal_for_objects_with_the_longest_names() -> None:
    cluster = await Cluster().start()
    async with recording(cluster) as recorder:
        recorder.event(a_pod("n" * 253), "Normal", "Bound", "m" * 5000)
    (event,) = await events(cluster)
    assert len(event.metadata.name) <= 253
    assert len(event.message) == 1024
