"""What every API server promises to those who watch, and our client relies on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from bosket.api.core import ConfigMap, Event
from bosket.api.kai import Queue
from bosket.kube import watch
from bosket.kube.errors import Gone
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod
from tests.e2e.wire import Stream, Wire, on_the_wire

#: A controller puts this into every namespace, when it gets round to it.
NOT_THE_CONTROLLERS = "metadata.name!=kube-root-ca.crt"
#: What tests below put on objects that they want to see.
OURS = "ours"
INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
END = {"k8s.io/initial-events-end": "true"}
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def wire(cluster: Cluster) -> AsyncIterator[Wire]:
    async with on_the_wire(cluster) as opened:
        yield opened


async def create(wire: Wire, name: str, **data: str) -> str:
    """An object that is ours; its version."""
    manifest = {**config_map(name, labels={OURS: ""}), "data": data}
    answer = await wire.create("configmaps", manifest)
    assert answer.status == 201
    return str(answer.body["metadata"]["resourceVersion"])


def watch_ours(wire: Wire, **query: str) -> Any:
    return wire.watch(wire.path("configmaps"), labelSelector=OURS, **query)


async def initial_events(stream: Stream) -> tuple[list[str], dict[str, Any]]:
    """Names of the objects that are there, and the bookmark that says that these were all."""
    names = []
    while (event := await stream.next())["type"] == "ADDED":
        names.append(event["object"]["metadata"]["name"])
    return names, event


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


# the state first, then what changes


async def test_a_watch_that_asks_for_it_is_told_the_state_and_where_it_ends(wire: Wire) -> None:
    await create(wire, "b")
    newest = await create(wire, "a")
    for version in ({}, {"resourceVersion": "0"}, {"resourceVersion": newest}):
        async with watch_ours(wire, **INITIAL, **version, allowWatchBookmarks="true") as stream:
            names, bookmark = await initial_events(stream)
            assert sorted(names) == ["a", "b"]
            assert bookmark["type"] == "BOOKMARK"
            metadata = bookmark["object"]["metadata"]
            assert metadata["annotations"] == END
            assert int(metadata["resourceVersion"]) >= int(newest)
            assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("ConfigMap", "v1")
            assert not metadata.get("name")
            await create(wire, "c")
            assert await stream.brief() == ("ADDED", "c")
            await wire.delete("configmaps", "c")
            assert await stream.brief() == ("DELETED", "c")


async def test_without_bookmarks_the_end_of_the_state_is_not_told(wire: Wire) -> None:
    await create(wire, "a")
    async with watch_ours(wire, **INITIAL) as stream:
        assert await stream.brief() == ("ADDED", "a")
        await create(wire, "b")
        assert await stream.brief() == ("ADDED", "b")


async def test_a_watch_that_wants_no_state_is_told_only_what_is_new(wire: Wire) -> None:
    newest = await create(wire, "a")
    options = {**INITIAL, "sendInitialEvents": "false", "resourceVersion": newest}
    async with watch_ours(wire, **options) as stream:
        await create(wire, "b")
        assert await stream.brief() == ("ADDED", "b")


async def test_a_watch_from_no_version_begins_with_the_state(wire: Wire) -> None:
    await create(wire, "gone")
    await wire.delete("configmaps", "gone")
    await create(wire, "a")
    async with watch_ours(wire) as first, watch_ours(wire, resourceVersion="0") as second:
        assert await first.brief() == ("ADDED", "a")
        assert await second.brief() == ("ADDED", "a")
        await wire.delete("configmaps", "a")
        assert await first.brief() == ("DELETED", "a")
        assert await second.brief() == ("DELETED", "a")


async def test_options_that_do_not_go_together_are_refused(wire: Wire) -> None:
    forbidden, unsupported = "FieldValueForbidden", "FieldValueNotSupported"
    for options, reasons in (
        ({"sendInitialEvents": "true"}, [forbidden]),
        ({"sendInitialEvents": "false"}, [forbidden]),
        ({"resourceVersionMatch": "NotOlderThan"}, [forbidden]),
        ({"resourceVersionMatch": "Exact"}, [forbidden, unsupported]),
        ({**INITIAL, "resourceVersionMatch": "Exact"}, [forbidden, unsupported]),
        ({"continue": "x"}, [forbidden]),
    ):
        refused = await wire.list("configmaps", watch="true", resourceVersion="0", **options)
        assert (refused.status, refused.reason) == (422, "Invalid")
        assert refused.causes == [(reason, "resourceVersionMatch") for reason in reasons]
        assert refused.body["details"]["kind"] == "ListOptions"


async def test_anything_but_no_asks_for_a_watch(wire: Wire) -> None:
    await create(wire, "a")
    for text in ("1", "true", "yes"):
        async with wire.watch(wire.path("configmaps"), watch=text, labelSelector=OURS) as stream:
            assert await stream.brief() == ("ADDED", "a")
    for text in ("0", "false", "False"):
        assert (await wire.list("configmaps", watch=text)).body["kind"] == "ConfigMapList"


async def test_a_watch_ends_when_its_time_is_over(wire: Wire) -> None:
    await create(wire, "a")
    async with watch_ours(wire, timeoutSeconds="1") as stream:
        assert await stream.brief() == ("ADDED", "a")
        assert await stream.next() is None


async def test_one_object_is_watched_by_its_name(wire: Wire) -> None:
    await create(wire, "a")
    await create(wire, "b")
    async with wire.watch(wire.path("configmaps"), fieldSelector="metadata.name=b") as stream:
        assert await stream.brief() == ("ADDED", "b")
        await wire.delete("configmaps", "a")
        await wire.delete("configmaps", "b")
        assert await stream.brief() == ("DELETED", "b")
    namespace = wire.path("configmaps").split("/")[4]
    async with wire.watch(f"/api/v1/watch/namespaces/{namespace}/configmaps/b") as stream:
        await create(wire, "b")
        assert await stream.brief() == ("ADDED", "b")
    # Where the path names an object, asking for a watch means nothing.
    named = await wire.send("GET", wire.path("configmaps", "b"), watch="true")
    assert (named.status, named.body["kind"]) == (200, "ConfigMap")


async def test_versions_of_events_grow_and_are_those_of_the_objects(wire: Wire) -> None:
    begin = await create(wire, "a")
    async with watch_ours(wire, resourceVersion=begin) as stream:
        written = [await create(wire, name) for name in ("b", "c", "d")]
        seen = [(await stream.next())["object"]["metadata"]["resourceVersion"] for _ in range(3)]
    assert seen == written
    assert [int(each) for each in seen] == sorted({int(each) for each in seen})


async def test_a_pod_enters_a_selection_of_fields_when_it_is_bound(cluster: Cluster, wire: Wire) -> None:
    node, *_ = await cluster.add_nodes(1)
    await wire.create("pods", pod("p"))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    pods = wire.path("pods")
    free = wire.watch(pods, fieldSelector="spec.nodeName=")
    bound = wire.watch(pods, fieldSelector=f"spec.nodeName={node}")
    async with free as unplaced, bound as placed:
        assert await unplaced.brief() == ("ADDED", "p")
        await wire.send("POST", f"{pods}/p/binding", {"metadata": {"name": "p"}, "target": target})
        entered = await placed.next()
        assert (entered["type"], entered["object"]["spec"]["nodeName"]) == ("ADDED", node)
        left = await unplaced.next()
        while left["type"] == "MODIFIED":  # before it was bound: somebody has spoken about it
            left = await unplaced.next()
        assert left["type"] == "DELETED"
        assert "nodeName" not in left["object"]["spec"]
        assert int(left["object"]["metadata"]["resourceVersion"]) >= int(
            entered["object"]["metadata"]["resourceVersion"]
        )


async def test_refused_watches_say_why(wire: Wire) -> None:
    path = wire.path("configmaps")
    assert (await wire.send("GET", path, watch="true", labelSelector="a in b")).status == 400
    assert (await wire.send("GET", path, watch="true", fieldSelector="spec.colour=red")).status == 400
    assert (await wire.send("GET", path, watch="true", timeoutSeconds="soon")).status == 400
    assert (await wire.send("GET", wire.path("colours"), watch="true")).status == 404


# other forms


async def test_a_watch_of_metadata_has_nothing_else(wire: Wire) -> None:
    await create(wire, "a", k="v")
    options = {**INITIAL, "allowWatchBookmarks": "true"}
    async with watch_ours(wire, accept=METADATA, **options) as stream:
        added, bookmark = await stream.next(), await stream.next()
        await wire.delete("configmaps", "a")
        deleted = await stream.next()
    for event, kind in ((added, "ADDED"), (bookmark, "BOOKMARK"), (deleted, "DELETED")):
        assert event["type"] == kind
        assert event["object"].keys() == {"kind", "apiVersion", "metadata"}
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert event["object"]["apiVersion"] == "meta.k8s.io/v1"
    assert added["object"]["metadata"]["labels"] == {OURS: ""}
    assert bookmark["object"]["metadata"]["annotations"] == END


async def test_a_watch_of_rows_names_its_columns_once(wire: Wire) -> None:
    await create(wire, "a", k="v")
    async with watch_ours(wire, accept=TABLE) as stream:
        first = (await stream.next())["object"]
        await create(wire, "b")
        second = await stream.next()
        await wire.delete("configmaps", "b")
        third = await stream.next()
    assert (first["kind"], first["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = first["rows"]
    assert row["cells"][:2] == ["a", 1]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert (second["type"], second["object"]["rows"][0]["cells"][:2]) == ("ADDED", ["b", 0])
    assert second["object"]["columnDefinitions"] is None
    assert (third["type"], third["object"]["rows"][0]["cells"][0]) == ("DELETED", "b")


async def test_rows_of_a_watch_come_with_what_was_asked_for(wire: Wire) -> None:
    await create(wire, "a")
    for include, kind in (("None", None), ("Object", "ConfigMap"), ("Metadata", "PartialObjectMetadata")):
        async with watch_ours(wire, accept=TABLE, includeObject=include) as stream:
            (row,) = (await stream.next())["object"]["rows"]
        assert (row["object"] or {}).get("kind") == kind
