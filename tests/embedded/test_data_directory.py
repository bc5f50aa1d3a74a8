"""An embedded cluster with a data directory: started again, it is the same cluster to everybody."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bosket.api.core import ConfigMap, Node, Pod
from bosket.api.object import ObjectMeta
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.embedded.cluster import EmbeddedCluster, Listen
from bosket.kube.client import Client
from bosket.kube.informer import Change, Informer, Informers
from bosket.kube.kubeconfig import connect, load
from tests.embedded.test_cluster import gang


def cluster_on(data: DataDirectory, kubeconfig: Path, **options: object) -> EmbeddedCluster:
    return EmbeddedCluster(nodes=2, listen=Listen(kubeconfig=kubeconfig), data=data, **options)  # type: ignore[arg-type]


async def until_running(client: Client, count: int) -> dict[str, str]:
    """Until so many pods run; their nodes by their UIDs."""
    async with asyncio.timeout(120):
        async for _ in client.watch(Pod, "default", resource_version="0"):
            pods = (await client.list(Pod, "default")).items
            running = {pod.metadata.uid: pod.spec.nodeName for pod in pods if pod.status.phase == "Running"}
            if len(running) == count:
                return running
    raise AssertionError("the watch ended")


async def test_what_ran_runs_on_and_what_is_new_is_scheduled_beside_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with DataDirectory(tmp_path / "data") as data:
        async with cluster_on(data, kubeconfig) as cluster:
            await cluster.wait_ready()
            await cluster.client().create(gang("old", pods=2, gpus=4, run_duration="1h"))
            before = await until_running(cluster.client(), 2)
            nodes = {node.metadata.uid for node in (await cluster.client().list(Node)).items}
        async with cluster_on(data, kubeconfig) as cluster:
            await cluster.wait_ready()
            client = cluster.client()
            assert {node.metadata.uid for node in (await client.list(Node)).items} == nodes
            await client.create(gang("new", pods=1, gpus=8, run_duration="1h"))
            after = await until_running(client, 3)
            assert before.items() <= after.items()
            pods = (await client.list(Pod, "default")).items
            assert len({pod.status.podIP for pod in pods}) == 3


async def test_clients_from_before_a_restart_go_on(tmp_path: Path) -> None:
    """Address, authority and token stay, and a watch resumes without listing again."""
    kubeconfig = tmp_path / "kubeconfig"
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(change: Change[ConfigMap]) -> None:
        if change.new is not None:
            heard.put_nowait(change.new.metadata.name)

    with DataDirectory(tmp_path / "data") as data:
        async with cluster_on(data, kubeconfig, services=()):
            first = load(kubeconfig)
            client = connect(kubeconfig)
            informers = Informers(client)
            informer: Informer[ConfigMap] = informers.of(ConfigMap, namespace="default")
            informer.subscribe(hear)
            following = asyncio.create_task(informers.run())
            await informers.wait_synced()
            await client.create(ConfigMap(metadata=ObjectMeta(name="before", namespace="default")))
            while await heard.get() != "before":
                pass
        try:
            async with cluster_on(data, tmp_path / "another", services=()):
                assert load(tmp_path / "another") == first
                # The old kubeconfig is as good as the new one.
                old = connect(kubeconfig)
                await old.create(ConfigMap(metadata=ObjectMeta(name="after", namespace="default")))
                async with asyncio.timeout(120):
                    while await heard.get() != "after":
                        pass
                await old.aclose()
        finally:
            following.cancel()
            await asyncio.wait([following])
            await client.aclose()


async def test_a_port_that_somebody_else_has_meanwhile_is_no_obstacle(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with DataDirectory(tmp_path / "data") as data:
        async with cluster_on(data, kubeconfig, services=()) as cluster:
            port = int(cluster.url.rpartition(":")[2])
        squatter = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
        async with squatter, cluster_on(data, kubeconfig, services=()) as cluster:
            assert cluster.url.rpartition(":")[2] != str(port)
            client = connect(kubeconfig)
            assert len((await client.list(Node)).items) == 2
            await client.aclose()
