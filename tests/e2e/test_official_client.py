"""The official Kubernetes client for Python lists, watches, writes and binds: no promise is kept only to our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

from bosket.api.core import Pod
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, deployment, pod

#: Its types are a part of the truth only: they know no dict as a body, and everything may be None.
official: Any = client
untyped_config: Any = config
untyped_watch: Any = watch


@pytest.fixture
def api(cluster: Cluster) -> Iterator[Any]:
    """The client. It blocks: its calls belong into `asyncio.to_thread`."""
    with untyped_config.new_client_from_config(str(cluster.kubeconfig)) as api_client:
        yield api_client
        # Closing the client leaves its connections open.
        api_client.rest_client.pool_manager.clear()


async def test_it_creates_reads_patches_and_deletes(cluster: Cluster, api: Any) -> None:
    def verbs() -> None:
        core = official.CoreV1Api(api)
        core.create_namespaced_config_map(cluster.namespace, config_map("a", {"k": "1"}))
        core.patch_namespaced_config_map("a", cluster.namespace, {"data": {"k": "2"}})
        assert core.read_namespaced_config_map("a", cluster.namespace).data == {"k": "2"}
        core.delete_namespaced_config_map("a", cluster.namespace)
        with pytest.raises(ApiException) as raised:
            core.read_namespaced_config_map("a", cluster.namespace)
        assert raised.value.status == 404

    await asyncio.to_thread(verbs)


async def test_it_lists_in_pages(cluster: Cluster, api: Any) -> None:
    for index in range(5):
        await cluster.client.create(config_map(f"cm-{index}", labels={"mine": "yes"}), cluster.namespace)

    def pages() -> list[str]:
        core, token = official.CoreV1Api(api), None
        names: list[str] = []
        while True:
            page = core.list_namespaced_config_map(cluster.namespace, label_selector="mine", limit=2, _continue=token)
            names += [item.metadata.name for item in page.items]
            token = page.metadata._continue
            if not token:
                return names

    assert await asyncio.to_thread(pages) == [f"cm-{index}" for index in range(5)]


async def test_it_watches(cluster: Cluster, api: Any) -> None:
    await cluster.client.create(config_map("cm", labels={"mine": "yes"}), cluster.namespace)

    def watched() -> list[tuple[str, str]]:
        core, seen = official.CoreV1Api(api), []
        stream = untyped_watch.Watch()
        for event in stream.stream(
            core.list_namespaced_config_map, cluster.namespace, label_selector="mine", timeout_seconds=20
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "ADDED":
                core.patch_namespaced_config_map("cm", cluster.namespace, {"data": {"k": "v"}})
            elif event["type"] == "MODIFIED":
                core.delete_namespaced_config_map("cm", cluster.namespace)
            else:
                stream.stop()
        return seen

    assert await asyncio.to_thread(watched) == [("ADDED", "cm"), ("MODIFIED", "cm"), ("DELETED", "cm")]


async def test_it_binds_a_pod(cluster: Cluster, api: Any) -> None:
    node, *_ = await cluster.add_nodes(1)
    await cluster.client.create(pod("p"), cluster.namespace)

    def bind() -> None:
        core = official.CoreV1Api(api)
        body = official.V1Binding(
            metadata=official.V1ObjectMeta(name="p"),
            target=official.V1ObjectReference(api_version="v1", kind="Node", name=node),
        )
        # The answer is a Status; this client expects a Binding of it and can't make one.
        core.create_namespaced_pod_binding("p", cluster.namespace, body, _preload_content=False)

    await asyncio.to_thread(bind)

    async def runs() -> bool:
        found = await cluster.client.get(Pod, "p", cluster.namespace)
        return found.status.phase == "Running" and found.spec.nodeName == node

    await cluster.eventually(runs)


async def test_it_works_with_custom_objects(cluster: Cluster, api: Any) -> None:
    queue = await cluster.add_queue(gpu_quota=3)

    def read() -> tuple[float, int]:
        custom = official.CustomObjectsApi(api)
        found = custom.get_cluster_custom_object("scheduling.run.ai", "v2", "queues", queue)
        patch = {"spec": {"priority": 7}}
        changed = custom.patch_cluster_custom_object("scheduling.run.ai", "v2", "queues", queue, patch)
        return found["spec"]["resources"]["gpu"]["quota"], changed["spec"]["priority"]

    assert await asyncio.to_thread(read) == (3, 7)


async def test_it_scales_a_deployment(cluster: Cluster, api: Any) -> None:
    await cluster.client.create(deployment("serve", replicas=0), cluster.namespace)

    def scale() -> int:
        apps = official.AppsV1Api(api)
        apps.patch_namespaced_deployment_scale("serve", cluster.namespace, {"spec": {"replicas": 2}})
        replicas: int = apps.read_namespaced_deployment("serve", cluster.namespace).spec.replicas
        return replicas

    assert await asyncio.to_thread(scale) == 2


async def test_it_evicts_a_pod(cluster: Cluster, api: Any) -> None:
    await cluster.client.create(pod("p"), cluster.namespace)

    def evict() -> None:
        body = official.V1Eviction(metadata=official.V1ObjectMeta(name="p", namespace=cluster.namespace))
        official.CoreV1Api(api).create_namespaced_pod_eviction("p", cluster.namespace, body)

    await asyncio.to_thread(evict)

    async def is_gone() -> bool:
        return not (await cluster.client.list(Pod, cluster.namespace)).items

    await cluster.eventually(is_gone)
