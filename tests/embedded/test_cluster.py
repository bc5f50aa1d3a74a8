"""An embedded cluster as a whole: starts, runs what is submitted, can be reached from outside, and stops cleanly."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from bosket.api.batch import Job, JobSpec
from bosket.api.core import (
    ConfigMap,
    Container,
    Namespace,
    Node,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Service,
)
from bosket.api.kai import Queue
from bosket.api.keys import DEFAULT_QUEUE, SCHEDULER_NAME
from bosket.api.object import ObjectMeta, OwnerReference
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.embedded.kubeconfig import belongs_to_embedded_cluster
from bosket.embedded.node import NodeShape
from bosket.embedded.services import UnknownService
from bosket.kube.client import Client
from bosket.kube.credentials import Credential, FixedCredential, bearer
from bosket.kube.errors import Unauthorized
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import connect, load
from bosket.runtime.clock import LoopClock


def gang(name: str, pods: int, *, gpus: int, run_duration: str = "5s") -> Job:
    resources = ResourceRequirements(requests={"nvidia.com/gpu": gpus}, limits={"nvidia.com/gpu": gpus})
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations={"bosket.dev/run-duration": run_duration}),
        spec=PodSpec(
            schedulerName=SCHEDULER_NAME,
            restartPolicy="Never",
            containers=(Container(name="main", image="i", resources=resources),),
        ),
    )
    return Job(
        metadata=ObjectMeta(name=name, namespace="default", annotations={"kai.scheduler/batch-min-member": str(pods)}),
        spec=JobSpec(parallelism=pods, completions=pods, template=template),
    )


async def until_complete(client: Client, name: str, clock: LoopClock) -> Job:
    async with asyncio.timeout(600):
        while True:
            job = await client.get(Job, name, "default")
            if any(each.type == "Complete" and each.status == "True" for each in job.status.conditions):
                return job
            await clock.sleep(0.1)


@pytest.mark.looptime
async def test_gangs_run_one_after_the_other_where_there_is_room_for_one() -> None:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=2, shape=NodeShape(gpus=4), clock=clock) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for name in ("first", "second"):
            await client.create(gang(name, pods=2, gpus=3))
        await until_complete(client, "first", clock)
        await until_complete(client, "second", clock)
        pods = (await client.list(Pod, "default")).items
        assert {pod.spec.schedulerName for pod in pods} == {SCHEDULER_NAME}
        assert {pod.status.phase for pod in pods} == {"Succeeded"}
        starts = {
            name: {pod.status.startTime for pod in pods if pod.metadata.labels["job-name"] == name}
            for name in ("first", "second")
        }
        assert all(len(times) == 1 for times in starts.values())
        assert starts["first"] != starts["second"]
        assert cluster.metrics.get_sample_value("bosket_events_total", {"outcome": "created"}), "events are counted"


@pytest.mark.looptime
async def test_a_service_that_was_killed_is_missed_and_goes_on_when_it_is_back() -> None:
    clock = LoopClock()
    async with EmbeddedCluster(nodes=2, shape=NodeShape(gpus=4), clock=clock, isolated=True) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        await cluster.stop_service("scheduler")
        await client.create(gang("g", pods=2, gpus=4))
        await clock.sleep(60)
        assert {pod.spec.nodeName for pod in (await client.list(Pod, "default")).items} == {""}
        await cluster.start_service("scheduler")
        await until_complete(client, "g", clock)


@pytest.mark.looptime
async def test_a_cluster_starts_with_its_nodes_and_the_default_queue() -> None:
    async with EmbeddedCluster(nodes=3, services=(), clock=LoopClock()) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        assert [node.metadata.name for node in (await client.list(Node)).items] == ["node-000", "node-001", "node-002"]
        assert (await client.get(Queue, DEFAULT_QUEUE)).metadata.name == DEFAULT_QUEUE


async def test_those_outside_reach_it_with_the_kubeconfig_and_nobody_else_does(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kube" / "config"
    async with EmbeddedCluster(nodes=1, services=(), listen=Listen(kubeconfig=kubeconfig)) as cluster:
        await cluster.wait_ready()
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        assert belongs_to_embedded_cluster(kubeconfig)
        client = connect(kubeconfig)
        try:
            assert len((await client.list(Node)).items) == 1
        finally:
            await client.aclose()
        guess = FixedCredential(Credential(authorization=bearer("guess")))
        stranger = Client(HttpTransport(replace(load(kubeconfig), credentials=guess)))
        try:
            with pytest.raises(Unauthorized):
                await stranger.list(Node)
        finally:
            await stranger.aclose()


async def test_nothing_is_left_running_when_a_cluster_stops(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with EmbeddedCluster(nodes=1, listen=Listen(kubeconfig=tmp_path / "kubeconfig")) as cluster:
        await cluster.wait_ready()
    assert asyncio.all_tasks() == before


@pytest.mark.looptime
async def test_what_others_do_is_left_to_them() -> None:
    """Whoever runs the Job controller and the garbage collector elsewhere finds everything as it left it."""
    clock = LoopClock()
    without = ("job", "garbage-collector")
    async with EmbeddedCluster(nodes=1, services=(), without=without, clock=clock) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        made = await client.create(gang("g", pods=1, gpus=1))
        owner = OwnerReference(apiVersion="batch/v1", kind="Job", name="g", uid=made.metadata.uid)
        owned = ObjectMeta(name="owned", namespace="default", ownerReferences=(owner,))
        await client.create(ConfigMap(metadata=owned))
        await clock.sleep(60)
        assert (await client.list(Pod, "default")).items == []
        await client.delete(Job, "g", "default", propagation="Background")
        await clock.sleep(60)
        assert (await client.get(ConfigMap, "owned", "default")).metadata.deletionTimestamp is None


async def test_servers_beside_the_api_server_find_whom_it_believes_and_where_it_is(tmp_path: Path) -> None:
    async with EmbeddedCluster(nodes=0, services=(), listen=Listen(kubeconfig=tmp_path / "kubeconfig")) as cluster:
        client = cluster.client()
        believed = (await client.get(ConfigMap, "extension-apiserver-authentication", "kube-system")).data
        assert believed["client-ca-file"].startswith("-----BEGIN CERTIFICATE-----")
        assert believed["requestheader-client-ca-file"] != believed["client-ca-file"]
        assert (await client.get(Service, "kubernetes", "default")).spec.clusterIP == "10.96.0.1"


async def test_every_namespace_has_the_root_certificate_whatever_happens_to_it(tmp_path: Path) -> None:
    async with EmbeddedCluster(nodes=0, services=(), listen=Listen(kubeconfig=tmp_path / "kubeconfig")) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        name = "kube-root-ca.crt"
        root = (await client.get(ConfigMap, name, "kube-system")).data
        await client.create(Namespace(metadata=ObjectMeta(name="team")))

        async def until_right(namespace: str) -> None:
            async with asyncio.timeout(120):
                async for change in client.watch(ConfigMap, namespace, resource_version="0"):
                    if change.type != "DELETED" and change.object is not None and change.object.data == root:
                        return

        for namespace in ("default", "team"):
            await until_right(namespace)
        await client.patch(ConfigMap, name, {"data": {"ca.crt": "mine"}}, namespace="team")
        await until_right("team")


async def test_an_unknown_service_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownService, match='no service "oracle"; there are: admission, podgrouper'):
        EmbeddedCluster(services=("scheduler", "oracle"))


async def test_a_part_that_fails_for_good_is_not_passed_over() -> None:
    async with EmbeddedCluster(nodes=1, services=()) as cluster:
        await cluster.wait_ready()

        async def broken() -> None:
            raise RuntimeError("the server broke")

        cluster._tasks["part"] = asyncio.create_task(broken())
        with pytest.raises(RuntimeError, match="the server broke"):
            await cluster.wait_stopped()
        del cluster._tasks["part"]
