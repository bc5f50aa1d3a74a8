"""`bosket up` and `bosket run` as processes: what they say, when they are ready, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bosket.api.core import ConfigMap, Namespace, Node, Pod
from bosket.api.kai import Queue
from bosket.api.object import ObjectMeta
from bosket.api.scheduling_k8s import PriorityClass
from bosket.cli.main import main
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect

BOSKET = Path(sys.executable).with_name("bosket")
_DEADLINE_SECONDS = 120.0


@asynccontextmanager
async def bosket(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(BOSKET, *arguments, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines_until(process: Process, last: str, *, errors: bool = False) -> list[str]:
    """What the process says up to the line that matches."""
    stream = process.stderr if errors else process.stdout
    assert stream is not None
    lines: list[str] = []
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while not lines or not re.search(last, lines[-1]):
            line = (await stream.readline()).decode()
            assert line, f"it ended before it said {last!r}: {lines}"
            lines.append(line.rstrip("\n"))
    return lines


async def stop(process: Process, number: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(number)
    async with asyncio.timeout(_DEADLINE_SECONDS):
        return await process.wait()


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    client = connect(kubeconfig)
    try:
        yield client
    finally:
        await client.aclose()


async def run_a_pod(client: Client, name: str = "p") -> str:
    """Until a pod that was submitted runs; says where."""
    pod = await client.create({**_POD, "metadata": {**_POD["metadata"], "name": name}})
    watch = client.watch(Pod, "default", resource_version=pod["metadata"]["resourceVersion"])
    async with asyncio.timeout(_DEADLINE_SECONDS), aclosing(watch) as events:
        async for event in events:
            found = event.object
            if found is not None and found.metadata.name == name and found.status.phase == "Running":
                return found.spec.nodeName
    raise AssertionError(f"the watch ended before pod {name} ran")


def spreading(folder: Path) -> str:
    """A configuration of the scheduler other than the default."""
    file = folder / "scheduler.yaml"
    file.write_text(
        "tiers: [{plugins: [{name: predicates}, {name: snapshot}, "
        "{name: nodeplacement, arguments: {cpu: spread, gpu: spread}}]}]"
    )
    return str(file)


async def test_up_says_ready_when_it_is_and_stops_when_told(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with bosket("up", "--nodes", "2", "--gpus", "3", "--cpu", "4", "--kubeconfig", str(kubeconfig)) as process:
        lines = await lines_until(process, "^ready$")
        assert lines[0].startswith("starting 2 nodes with 3 GPUs, 4 CPUs")
        assert any('those that name none, or "default-scheduler", without queues' in line for line in lines)
        async with client_of(kubeconfig) as client:
            nodes = (await client.list(Node)).items
            assert [node.status.allocatable["nvidia.com/gpu"] for node in nodes] == ["3", "3"]
            await run_a_pod(client)
        assert await stop(process) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert (await process.stdout.read()).decode() == "stopped\n"
        assert (await process.stderr.read()).decode() == ""


async def test_a_second_cluster_leaves_the_kubeconfig_of_a_running_one_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ["up", "--nodes", "1", "--kubeconfig", str(kubeconfig)]
    async with EmbeddedCluster(nodes=1, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        before = kubeconfig.read_bytes()
        assert await asyncio.to_thread(main, arguments) == 2
        assert f"which is running, at {cluster.url}" in capsys.readouterr().err
        assert kubeconfig.read_bytes() == before
    async with bosket(*arguments) as process:  # that one has ended: its file may be written over
        await lines_until(process, "^ready$")
        assert await stop(process) == 0
    assert kubeconfig.read_bytes() != before


async def test_a_cluster_with_a_data_directory_survives_kill_9_and_has_it_for_itself(tmp_path: Path) -> None:
    kubeconfig, data = tmp_path / "kubeconfig", tmp_path / "data"
    arguments = ("up", "--nodes", "1", "--data", str(data), "--kubeconfig", str(kubeconfig), "--services", "none")
    async with bosket(*arguments) as process:
        await lines_until(process, "^ready$")
        async with client_of(kubeconfig) as client:
            created = await client.create(ConfigMap(metadata=ObjectMeta(name="kept", namespace="default")))
        async with bosket(*arguments[:-3], str(tmp_path / "another"), *arguments[-2:]) as second:
            (complaint,) = await lines_until(second, "bosket:", errors=True)
            assert complaint == (
                f"bosket: data directory {data}: another server is using it; stop that one, or name another directory"
            )
            assert await second.wait() == 1
        assert await stop(process, signal.SIGKILL) == -signal.SIGKILL
    before = kubeconfig.read_text()
    async with bosket(*arguments) as process:
        await lines_until(process, "^ready$")
        assert kubeconfig.read_text() == before
        async with client_of(kubeconfig) as client:
            assert await client.get(ConfigMap, "kept", "default") == created
        assert await stop(process) == 0
    os.truncate(data / "state.db", 5000)
    async with bosket(*arguments) as process:
        await lines_until(process, r"^bosket: .*state\.db is damaged .*restore it", errors=True)
        assert await process.wait() == 1


async def test_what_the_scheduler_of_up_knows_can_be_fetched_and_replayed(tmp_path: Path) -> None:
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "snapshot.zip"
    async with bosket("up", "--nodes", "1", "--gpus", "1", "--kubeconfig", str(kubeconfig)) as process:
        lines = await lines_until(process, "^ready$")
        assert f"try: bosket snapshot --kubeconfig {kubeconfig}" in lines
        async with client_of(kubeconfig) as client:
            await run_a_pod(client, "first")
            second = await client.create({**_POD, "metadata": {**_POD["metadata"], "name": "second"}})
            watch = client.watch(Pod, "default", resource_version=second["metadata"]["resourceVersion"])
            async with asyncio.timeout(_DEADLINE_SECONDS), aclosing(watch) as events:
                async for event in events:  # until it is called unschedulable
                    if event.object is not None and event.object.status.conditions:
                        break
        fetched = await said("snapshot", "--kubeconfig", str(kubeconfig), "-o", str(file))
        assert f"{file}: 1 nodes" in fetched
        assert "2 pods" in fetched
        (url,) = (line.removeprefix("scheduler: ") for line in lines if line.startswith("scheduler: "))
        async with aiohttp.ClientSession() as session, session.get(f"{url}/get-job-order") as response:
            (waiting,) = (await response.json())["global_order"]
        assert waiting["id"].startswith("default/pg-second-")
    answer = json.loads(await said("replay", str(file), "--json"))
    assert answer["binds"] == []
    assert sorted(state["pods"] == {"Running": 1} for state in answer["podGroups"].values()) == [False, True]
    assert "1 of 2 jobs wait, with 1 pods." in await said("replay", str(file))


async def said(*arguments: str) -> str:
    """What a command that ends by itself prints."""
    async with bosket(*arguments) as process:
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()


async def test_up_gives_the_scheduler_its_configuration(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    options = ("--nodes", "2", "--kubeconfig", str(kubeconfig), "--scheduler-config", spreading(tmp_path))
    async with bosket("up", *options) as process:
        await lines_until(process, "^ready$")
        async with client_of(kubeconfig) as client:
            assert await run_a_pod(client, "p") != await run_a_pod(client, "q")


async def test_services_run_against_a_cluster_from_a_process_of_their_own_as_they_are_configured(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    configuration = ("--scheduler-config", spreading(tmp_path))
    async with bosket("up", "--nodes", "2", "--services", "none", "--kubeconfig", str(kubeconfig)) as up:
        await lines_until(up, "^ready$")
        services = ("podgrouper", "scheduler", "binder")
        options = ("--kubeconfig", str(kubeconfig), "--log-format", "json", "--plugin-server-port", "0")
        async with bosket("run", *services, *configuration, *options) as run, client_of(kubeconfig) as client:
            (line,) = [each for each in await lines_until(run, "answering", errors=True) if "answering" in each]
            assert await run_a_pod(client, "p") != await run_a_pod(client, "q")
            file = tmp_path / "snapshot.zip"
            assert "2 pods" in await said("snapshot", "--url", json.loads(line)["url"], "-o", str(file))
            assert await stop(run, signal.SIGINT) == 0


async def test_a_cluster_without_the_kinds_is_refused_at_once_and_can_be_given_them(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with bosket("up", "--nodes", "0", "--services", "none", "--kubeconfig", str(kubeconfig)) as up:
        await lines_until(up, "^ready$")
        async with client_of(kubeconfig) as client:
            definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.run.ai"
            await client.raw("DELETE", definition)
        async with bosket("run", "scheduler", "--kubeconfig", str(kubeconfig)) as run:
            _, errors = await run.communicate()
            assert run.returncode == 1
            assert "doesn't know KAI's kinds; install them with: bosket crds --install" in errors.decode()
        async with bosket("crds", "--install", "--kubeconfig", str(kubeconfig)) as crds:
            output, _ = await crds.communicate()
            assert crds.returncode == 0
            assert "queues.scheduling.run.ai created" in output.decode()
            assert "podgroups.scheduling.run.ai updated" in output.decode()


async def test_a_cluster_without_the_namespace_for_leases_is_refused_at_once_and_can_be_given_it(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with bosket("up", "--nodes", "0", "--services", "none", "--kubeconfig", str(kubeconfig)) as up:
        await lines_until(up, "^ready$")
        async with client_of(kubeconfig) as client:
            await client.delete(Queue, "default-queue")
            await client.delete(PriorityClass, "train")
            await delete_and_wait(client, "kai-scheduler")
            for options, remedy in (
                ((), "bosket crds --install"),
                (("--namespace", "other"), "kubectl create namespace other"),
            ):
                async with bosket("run", "scheduler", "--kubeconfig", str(kubeconfig), *options) as run:
                    _, errors = await run.communicate()
                    assert run.returncode == 1
                    assert errors.decode().endswith(f"for the services' leases; create it with: {remedy}\n")
            async with bosket("crds", "--install", "--kubeconfig", str(kubeconfig)) as crds:
                output, _ = await crds.communicate()
                assert crds.returncode == 0
            assert {
                "namespace/kai-scheduler created",
                "queue/default-queue created",
                "queue/default-parent-queue left as it is",
                "priorityclass/train created",
                "priorityclass/build left as it is",
            } <= set(output.decode().splitlines())
            await client.get(Namespace, "kai-scheduler")
            await client.get(Queue, "default-queue")


async def delete_and_wait(client: Client, namespace: str) -> None:
    found = await client.get(Namespace, namespace)
    watch = client.watch(Namespace, resource_version=found.metadata.resourceVersion)
    async with asyncio.timeout(_DEADLINE_SECONDS), aclosing(watch) as events:
        await client.delete(Namespace, namespace)
        async for event in events:
            if event.type == "DELETED" and event.object is not None and event.object.metadata.name == namespace:
                return


_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    },
}
