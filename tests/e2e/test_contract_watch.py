"""What every API server promises to those who watch, and our client relies on."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from bosket.api.core import ConfigMap, Event
from bosket.api.kai import Queue
from bosket.kube import watch
from bosket.kube.errors import Gone
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map

#: A controller puts this into every namespace, when it gets round to it.
NOT_THE_CONTROLLERS = "metadata.name!=kube-root-ca.crt"


async def next_events(
    cluster: Cluster, count: int, *, resource_version: str, labels: str | None = None
) -> list[tuple[str, str]]:
    """Type and name of the first events after that version."""
    seen: list[tuple[str, str]] = []
    changes = cluster.client.watch(
        ConfigMap,
        cluster.namespace,
        resource_version=resource_version,
        labels=labels,
        fields=NOT_THE_CONTROLLERS,
        timeout_seconds=20,
    )
    async with aclosing(changes):
        async for change in changes:
            if change.type != watch.BOOKMARK:
                seen.append((change.type, change.key.name))
                if len(seen) == count:
                    break
    return seen


async def test_a_watch_tells_of_every_change_after_the_list_it_continues(cluster: Cluster) -> None:
    client, namespace = cluster.client, cluster.namespace
    await client.create(config_map("before"), namespace)
    page = await client.list(ConfigMap, namespace)
    await client.create(config_map("a"), namespace)
    await client.patch(ConfigMap, "a", {"data": {"k": "v"}}, namespace=namespace)
    await client.delete(ConfigMap, "a", namespace)
    assert await next_events(cluster, 3, resource_version=page.resource_version) == [
        (watch.ADDED, "a"),
        (watch.MODIFIED, "a"),
        (watch.DELETED, "a"),
    ]


async def test_a_watch_goes_on_from_any_event_without_loss_or_repetition(cluster: Cluster) -> None:
    client, namespace = cluster.client, cluster.namespace
    first = await client.create(config_map("a"), namespace)
    await client.create(config_map("b"), namespace)
    await client.create(config_map("c"), namespace)
    assert await next_events(cluster, 2, resource_version=first["metadata"]["resourceVersion"]) == [
        (watch.ADDED, "b"),
        (watch.ADDED, "c"),
    ]


async def test_an_object_that_no_longer_matches_the_selector_is_deleted_for_that_watch(cluster: Cluster) -> None:
    client, namespace = cluster.client, cluster.namespace
    page = await client.list(ConfigMap, namespace)
    await client.create(config_map("a", labels={"colour": "red"}), namespace)
    await client.patch(ConfigMap, "a", {"metadata": {"labels": {"colour": "blue"}}}, namespace=namespace)
    await client.patch(ConfigMap, "a", {"metadata": {"labels": {"colour": "red"}}}, namespace=namespace)
    assert await next_events(cluster, 3, resource_version=page.resource_version, labels="colour=red") == [
        (watch.ADDED, "a"),
        (watch.DELETED, "a"),
        (watch.ADDED, "a"),
    ]


async def test_the_last_event_of_an_object_carries_the_version_of_its_deletion(cluster: Cluster) -> None:
    client, namespace = cluster.client, cluster.namespace
    created = await client.create(config_map("a"), namespace)
    version = created["metadata"]["resourceVersion"]
    await client.delete(ConfigMap, "a", namespace)
    changes = client.watch(ConfigMap, namespace, resource_version=version, timeout_seconds=20)
    async with aclosing(changes):
        deletion = await anext(change async for change in changes if change.type == watch.DELETED)
    assert int(deletion.resource_version) > int(version)
    assert deletion.object is not None
    assert deletion.object.metadata.resourceVersion == deletion.resource_version


async def test_a_watch_learns_by_bookmark_that_time_has_gone_on_elsewhere(cluster: Cluster) -> None:
    """Shortly before the server ends it, so that the next one needn't start in the distant past."""
    client, namespace = cluster.client, cluster.namespace
    page = await client.list(ConfigMap, namespace)
    changes = client.watch(
        ConfigMap, namespace, resource_version=page.resource_version, fields=NOT_THE_CONTROLLERS, timeout_seconds=4
    )
    await client.create(config_map("here"), namespace)
    async with aclosing(changes):
        seen = await anext(changes)  # from here on, the server tells us what happens
        await client.create(config_map(namespace), "default")
        await client.delete(ConfigMap, namespace, "default")
        later = [change async for change in changes]
    assert {change.type for change in later} == {watch.BOOKMARK}
    assert int(later[-1].resource_version) > int(seen.resource_version)
    await client.create(config_map("next"), namespace)
    assert await next_events(cluster, 1, resource_version=later[-1].resource_version) == [(watch.ADDED, "next")]


async def test_history_that_is_no_longer_kept_is_gone(cluster: Cluster) -> None:
    """The reflector's cue to list again. No server has a history of queues from before it knew what a queue is."""
    changes = cluster.client.watch(Queue, resource_version="1", timeout_seconds=20)
    with pytest.raises(Gone, match="too old resource version"):
        await anext(changes)


async def test_events_are_watched_across_namespaces(cluster: Cluster) -> None:
    client = cluster.client
    page = await client.list(Event)
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": cluster.namespace}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1"},
        "involvedObject": about,
        "reason": "Seen",
    }
    await client.create(event, cluster.namespace)
    changes = client.watch(Event, resource_version=page.resource_version, timeout_seconds=20)
    async with aclosing(changes):
        seen = await anext(each async for each in changes if each.key.namespace == cluster.namespace)
    assert seen.object is not None
    assert seen.object.reason == "Seen"
