"""The running scheduler answers over HTTP: with a snapshot of what it knows, and with the order of its jobs."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.kai.podgroup import PodGroup
from bosket.runtime.local_server import serve_local
from bosket.runtime.service import Environment
from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError, PluginChoice
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.loop import Scheduler, service
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.options import Options
from bosket.scheduler.plugins.reflectjoborder import job_order
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import read
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import snapshot_of
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.present import present
from tests.rig import NAMESPACE, Rig, make_rig


def members(name: str, size: int, gpus: int = 1) -> list[Pod]:
    return gang(name, size, gpus=gpus, namespace=NAMESPACE)


def group(name: str, size: int, **options: Any) -> PodGroup:
    return pod_group(name, min_member=size, namespace=NAMESPACE, **options)


@asynccontextmanager
async def serving(
    rig: Rig, configuration: Configuration | None = None, transport: FaultyTransport | None = None
) -> AsyncIterator[str]:
    """A scheduler, and the address where it answers."""
    environments = []

    def make(env: Environment) -> Scheduler:
        environments.append(env)
        return service(env, Options(configuration=configuration or Configuration()))

    async with rig.running(make, transport), serve_local(environments[0].local_pages, 0) as url:
        yield url


async def fetch(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.read()


async def bound(rig: Rig, count: int) -> bool:
    return len((await rig.client.list(BindRequest, NAMESPACE)).items) == count


async def test_a_snapshot_holds_what_the_scheduler_knows_and_is_decided_on_as_it_does() -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q"), group("g", 2), *members("g", 2), group("w", 1)])
    await rig.apply(*members("w", 1))
    async with serving(rig) as url:
        await rig.until(lambda: bound(rig, 2))
        status, data = await fetch(f"{url}/get-snapshot")
    assert status == 200
    recorded = read(data)
    assert {name: len(objects) for name, objects in recorded.objects.items()} == {
        **dict.fromkeys(LISTS, 0),
        "nodes": 1,
        "priorityClasses": 2,  # the server's own
        "queues": 1,
        "podGroups": 2,
        "namespaces": 5,  # the server's own, and the test's
        "bindRequests": 2,
        "pods": 3,
    }
    snapshot = recorded.snapshot(present(recorded.now))
    got = answer(snapshot, decide(snapshot, recorded.configuration))
    assert got["binds"] == []
    assert got["podGroups"][f"{NAMESPACE}/g"] == {"pods": {"Binding": 2}}
    assert got["podGroups"][f"{NAMESPACE}/w"]["reasons"] == ["PodSchedulingErrors"]


async def test_a_snapshot_says_which_kinds_the_server_served_and_does_without_where_it_may_not_ask() -> None:
    rig = await make_rig([node("n1"), queue("q")])

    async def discovery(transport: FaultyTransport | None = None) -> bytes:
        async with serving(rig, transport=transport) as url:
            await rig.until(lambda: seen(url))
            _, data = await fetch(f"{url}/get-snapshot")
        return data

    async def seen(url: str) -> bool:
        return (await fetch(f"{url}/get-snapshot"))[0] == 200

    def document(data: bytes) -> Any:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return json.loads(archive.read("snapshot.json"))

    found = document(await discovery())["discovery"]
    assert found["serverVersion"]["major"]
    groups = {each["groupVersion"]: {kind["name"] for kind in each["resources"]} for each in found["resources"]}
    assert "podgroups" in groups["scheduling.run.ai/v2alpha2"]
    refusing = FaultyTransport(rig.server.transport())
    refusing.add(refuse(matching("GET", "/version"), 403, times=99))
    assert "discovery" not in document(await discovery(refusing))


async def test_before_the_cluster_is_seen_nothing_is_said_of_it() -> None:
    rig = await make_rig([node("n1")])
    broken = FaultyTransport(rig.server.transport())
    broken.add(refuse(matching("GET", "/pods"), 403, times=99))
    async with serving(rig, transport=broken) as url:
        for path in ("/get-snapshot", "/get-job-order"):
            assert await fetch(f"{url}{path}") == (503, b"the scheduler has not seen the whole cluster yet\n")


async def test_only_what_is_configured_is_answered() -> None:
    rig = await make_rig([node("n1")])
    only_order = Configuration(plugins=(PluginChoice("predicates"), PluginChoice("reflectjoborder")))
    async with serving(rig, only_order) as url:
        status, text = await fetch(f"{url}/get-snapshot")
        assert (status, text) == (
            404,
            b"there is no /get-snapshot here; there is /debug/failed-snapshot, /debug/left-out, /get-job-order\n",
        )


async def test_the_order_is_that_of_allocate_and_asking_for_it_changes_nothing() -> None:
    rig = await make_rig([node("n1", gpus=1), queue("q"), priority_class("high", 90), group("old", 2)])
    await rig.apply(*members("old", 2), group("urgent", 2, priority="high"), *members("urgent", 2))
    async with serving(rig) as url:

        async def order() -> Any:
            status, text = await fetch(f"{url}/get-job-order")
            return status == 200 and json.loads(text)

        found = await rig.until(order)
        assert await order() == found
        assert await rig.client.list(BindRequest, NAMESPACE)
        await rig.client.create(node("n2", gpus=4))
        await rig.until(lambda: bound(rig, 4))
        assert (await rig.until(order))["global_order"] == []
    first = {"id": f"{NAMESPACE}/urgent", "priority": 90}
    second = {"id": f"{NAMESPACE}/old", "priority": 50}
    assert found == {"global_order": [first, second], "queue_order": {"q": [first, second]}}


async def test_the_loop_goes_on_while_a_snapshot_is_written() -> None:
    """Asked for again and again while pods come; each answer is of one moment: a pod, or its pod and its request."""
    rig = await make_rig([node("n1", gpus=8), queue("q"), *(group(f"g{i}", 1) for i in range(8))])
    async with serving(rig) as url:
        for number in range(8):
            await rig.apply(*members(f"g{number}", 1))
            status, data = await fetch(f"{url}/get-snapshot")
            if status == 200:
                recorded = read(data)
                pods = {each.key for each in recorded.objects["pods"]}
                assert {each.key for each in recorded.objects["bindRequests"]} <= pods
        await rig.until(lambda: bound(rig, 8))
        assert len((await rig.client.list(Pod, NAMESPACE)).items) == 8


def test_jobs_that_wait_for_pods_and_jobs_beyond_the_queues_depth_have_no_turn() -> None:
    snapshot = snapshot_of(
        [node("n")],
        [queue("a"), queue("b")],
        [pod_group("a1", queue="a"), pod_group("a2", queue="a"), pod_group("a3", queue="a", min_member=2)],
        [pod_group("b1", queue="b"), pod_group("running", queue="b")],
        [*gang("a1", 1), *gang("a2", 1), *gang("a3", 1), *gang("b1", 1)],
        pod("running-0").gpu(1).of_group("running").running_on("n").build(),
    )
    order = job_order(open_session(snapshot, Configuration(queue_depth={"allocate": 1})))
    assert {queue: [each["id"] for each in jobs] for queue, jobs in order["queue_order"].items()} == {
        "a": ["default/a1"],
        "b": ["default/b1"],
    }
    assert [each["id"] for each in order["global_order"]] == ["default/a1", "default/b1"]
    everything = job_order(open_session(snapshot, Configuration()))
    assert len(everything["global_order"]) == 3


async def test_a_plugin_that_cannot_be_had_is_said_before_anything_starts() -> None:
    rig = await make_rig()
    broken = Configuration(plugins=(PluginChoice("nodeplacement", {"gpu": "heap"}),))
    with pytest.raises(ConfigurationError, match="nodeplacement"):
        async with serving(rig, broken):
            pass


async def test_plugins_and_actions_that_are_not_there_are_named_and_gone_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = await make_rig([node("n1"), queue("q"), group("g", 1), *members("g", 1)])
    configuration = Configuration(
        actions=("allocate", "dance", "reclaim"), plugins=(*Configuration().plugins, PluginChoice("waltz"))
    )
    async with serving(rig, configuration):
        await rig.until(lambda: bound(rig, 1))
    assert "doesn't have, and runs without: action dance, plugin waltz" in caplog.text


async def test_programs_get_what_the_everyday_commands_print() -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q"), group("runs", 2), *members("runs", 2), group("waits", 1)])
    await rig.apply(*members("waits", 1, gpus=2))
    async with serving(rig) as url:
        await rig.until(lambda: bound(rig, 2))
        answers = {path: json.loads((await fetch(f"{url}/{path}"))[1]) for path in ("queues", "jobs", "order")}
    (one,) = answers["queues"]["queues"]
    assert (one["name"], one["resources"]["gpu"]["used"], one["waitingJobs"]) == ("q", 2, 1)
    jobs = {each["name"]: each for each in answers["jobs"]["jobs"]}
    assert (jobs["runs"]["state"], jobs["waits"]["state"]) == ("running", "pending")
    assert "needs 2 GPUs" in jobs["waits"]["sentence"]
    assert [(each["number"], each["name"]) for each in answers["order"]["turns"]] == [(1, "waits")]


async def test_one_report_is_made_at_a_time_and_all_who_ask_for_it_meanwhile_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q"), group("waits", 1), *members("waits", 1, gpus=4)])
    begun, goes_on, made = threading.Event(), threading.Event(), list[int]()

    def slow(snapshot: Snapshot, configuration: Configuration, *, proposals: Proposals | None = None) -> Decisions:
        assert proposals == {}  # no search for victims
        made.append(threading.get_ident())
        begun.set()
        assert goes_on.wait(60)
        return decide(snapshot, configuration, proposals=proposals)

    async with serving(rig) as url:

        async def is_seen() -> bool:
            return (await fetch(f"{url}/queues"))[0] == 200

        await rig.until(is_seen)
        monkeypatch.setattr("bosket.scheduler.endpoints.decide", slow)
        asking = [asyncio.create_task(fetch(f"{url}/jobs")) for _ in range(20)]
        assert await asyncio.to_thread(begun.wait, 60)
        for path in ("order", "queues"):
            async with aiohttp.ClientSession() as session, session.get(f"{url}/{path}") as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
        goes_on.set()
        answers = await asyncio.gather(*asking)
        assert {status for status, _ in answers} == {200}
        assert len({body for _, body in answers}) == 1
        assert len(made) == 1
        assert made[0] != threading.get_ident()
        assert (await fetch(f"{url}/order"))[0] == 200


async def test_a_report_that_fails_does_not_keep_the_next_from_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await make_rig([node("n1", gpus=2), queue("q")])

    def fails(*_: object, **__: object) -> Decisions:
        raise ZeroDivisionError

    async with serving(rig) as url:

        async def is_seen() -> bool:
            return (await fetch(f"{url}/queues"))[0] == 200

        await rig.until(is_seen)
        with monkeypatch.context() as patch:
            patch.setattr("bosket.scheduler.endpoints.decide", fails)
            assert (await fetch(f"{url}/jobs"))[0] == 500
        assert (await fetch(f"{url}/jobs"))[0] == 200


async def test_without_the_plugin_snapshot_programs_get_no_answers() -> None:
    without = tuple(each for each in Configuration().plugins if each.name != "snapshot")
    rig = await make_rig([node("n1"), queue("q")])
    async with serving(rig, replace(Configuration(), plugins=without)) as url:
        for path in ("get-snapshot", "queues", "jobs", "order"):
            assert (await fetch(f"{url}/{path}"))[0] == 404
