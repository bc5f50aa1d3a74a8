"""The official Python client against the listener: it lists, watches, binds and patches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest
from kubernetes import client, watch

from bosket.apiserver import ApiServer
from bosket.apiserver.http.listener import serve
from bosket.apiserver.request.resource_request import User
from bosket.runtime.clock import SystemClock
from tests.apiserver.world import pod

pytestmark = pytest.mark.slow

T = TypeVar("T")


@pytest.fixture
async def api() -> AsyncIterator[Any]:
    listener = await serve(ApiServer(clock=SystemClock()), tokens={"secret": User("admin", ("system:masters",))})
    configuration = client.Configuration(host=listener.url, api_key={"authorization": "Bearer secret"})
    with client.ApiClient(configuration) as connection:
        yield connection
    await listener.aclose()


async def run(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call it in a thread: the client blocks, and the server lives on this loop."""
    return await asyncio.to_thread(function, *arguments, **options)


async def test_it_creates_lists_in_pages_patches_and_deletes(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    for name in ("a", "b", "c"):
        created = await run(core.create_namespaced_pod, "default", pod(name))
        assert created.spec.restart_policy == "Always"
    page = await run(core.list_namespaced_pod, "default", limit=2)
    rest = await run(core.list_namespaced_pod, "default", limit=2, _continue=page.metadata._continue)
    assert [each.metadata.name for each in page.items + rest.items] == ["a", "b", "c"]
    patched = await run(core.patch_namespaced_pod, "a", "default", {"metadata": {"labels": {"x": "y"}}})
    assert patched.metadata.labels == {"x": "y"}
    await run(core.delete_namespaced_pod, "a", "default")
    with pytest.raises(client.ApiException) as refused:
        await run(core.read_namespaced_pod, "a", "default")
    assert refused.value.status == 404


async def test_it_binds_and_sees_the_binding_in_a_watch(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    await run(core.create_namespaced_pod, "default", pod("a"))

    def first_assignment() -> tuple[str, str]:
        watching: Any = watch.Watch  # its types are not complete
        for event in watching().stream(core.list_namespaced_pod, "default", timeout_seconds=20):
            if event["object"].spec.node_name:
                return event["type"], event["object"].spec.node_name
        raise AssertionError("the watch ended without a binding")

    watching = asyncio.create_task(run(first_assignment))
    target = client.V1ObjectReference(kind="Node", name="n")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="a"), target=target)
    await run(core.create_namespaced_binding, "default", binding, _preload_content=False)
    kind, node = await watching
    assert (kind, node) in (("MODIFIED", "n"), ("ADDED", "n"))


async def test_it_reads_and_writes_scales_and_custom_objects(api: Any) -> None:
    from tests.apiserver.world import definition, widget

    extensions: Any = client.ApiextensionsV1Api(api)
    custom: Any = client.CustomObjectsApi(api)
    await run(extensions.create_custom_resource_definition, definition())
    arguments = ("example.com", "v1", "default", "widgets")
    await run(custom.create_namespaced_custom_object, *arguments, widget("w", {"size": 1}))
    found = await run(custom.patch_namespaced_custom_object, *arguments, "w", {"spec": {"size": 2}})
    assert found["spec"] == {"size": 2}
