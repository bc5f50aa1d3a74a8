"""`modify` writes what differs, guards it by the version, and leaves alone what the Struct doesn't know."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bosket.api.core import Pod, PodStatus
from bosket.api.object import ObjectMeta, Wire
from bosket.kube.client import Client, PatchType
from bosket.kube.errors import Conflict, Invalid
from bosket.kube.modification import modification
from bosket.kube.patch import PatchError, apply_json_patch, merge_patch
from bosket.kube.transport import Request, Response
from tests.kube.scripted import answer, failure, pod


class Server:
    """Holds one object, and patches it as an API server does: a version that is not the present one is a conflict."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.requests: list[Request] = []

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if request.method == "GET":
            return answer(self.document)
        patch = msgspec.json.decode(request.body)
        merging = request.headers["Content-Type"] == PatchType.MERGE
        try:
            patched = merge_patch(self.document, patch) if merging else apply_json_patch(self.document, patch)
        except PatchError as error:
            return failure(422, "Invalid", str(error))
        version = self.document["metadata"]["resourceVersion"]
        if patched["metadata"]["resourceVersion"] != version:
            return failure(409, "Conflict", "the object has been modified")
        meta = {**patched["metadata"], "resourceVersion": str(int(version) + 1)}
        self.document = {**patched, "metadata": meta}
        return answer(self.document)

    async def stream(self, request: Request) -> Any:
        raise AssertionError(request)

    async def aclose(self) -> None:
        return None


def document() -> dict[str, Any]:
    """A pod with members, at every depth, that no Struct knows."""
    doc = pod("a", 5, labels={"app": "x"}, future="kept")
    doc["spec"]["futureSpec"] = {"a": 1}
    doc["spec"]["containers"] = [
        {"name": "one", "image": "i1", "futureField": 1, "resources": {"futureResource": "r"}},
        {"name": "two", "image": "i2", "futureField": 2},
    ]
    doc["status"] = {
        "phase": "Pending",
        "futureStatus": True,
        "conditions": [{"type": "Ready", "status": "False", "futureCondition": 3}],
    }
    return doc


async def opened(doc: dict[str, Any] | None = None) -> tuple[Server, Client, Pod]:
    server = Server(document() if doc is None else doc)
    client = Client(server)
    before = await client.get(Pod, "a", "ns")
    server.requests.clear()
    return server, client, before


async def test_a_changed_label_is_all_that_is_sent() -> None:
    server, client, before = await opened()
    after = replace(before, metadata=replace(before.metadata, labels={"app": "x", "new": "y"}))
    result = await client.modify(before, after)
    assert msgspec.json.decode(server.requests[0].body) == {
        "metadata": {"labels": {"new": "y"}, "resourceVersion": "5"}
    }
    assert result.metadata.labels == {"app": "x", "new": "y"}
    assert result.metadata.resourceVersion == "6"


async def test_nothing_is_sent_when_nothing_differs() -> None:
    server, client, before = await opened()
    same = msgspec.convert(msgspec.to_builtins(before), Pod)
    newer_only = replace(before, metadata=replace(before.metadata, resourceVersion="9"))
    assert await client.modify(before, same) is before
    assert await client.modify(before, newer_only) is before
    assert not server.requests


async def test_a_removed_label_and_an_emptied_string_go() -> None:
    server, client, before = await opened()
    after = replace(
        before, metadata=replace(before.metadata, labels={}), status=replace(before.status or PodStatus(), phase="")
    )
    await client.modify(before, after)
    assert not server.document["metadata"].get("labels")
    assert "phase" not in server.document["status"]
    assert server.document["status"]["futureStatus"] is True


async def test_a_changed_list_element_keeps_what_the_struct_does_not_know() -> None:
    server, client, before = await opened()
    assert before.spec is not None
    one, two = before.spec.containers
    after = replace(before, spec=replace(before.spec, containers=(two, replace(one, image="new"))))
    await client.modify(before, after)
    assert server.document["spec"]["containers"] == [
        {"name": "two", "image": "i2", "futureField": 2},
        {"name": "one", "image": "new", "futureField": 1, "resources": {"futureResource": "r"}},
    ]
    assert server.document["spec"]["futureSpec"] == {"a": 1}


async def test_a_condition_is_changed_in_place_and_another_added_in_the_status_subresource() -> None:
    server, client, before = await opened()
    status = before.status or PodStatus()
    ready = status.conditions[0]
    conditions = (replace(ready, status="True"), replace(ready, type="PodScheduled"))
    await client.modify(before, replace(before, status=replace(status, conditions=conditions)), subresource="status")
    assert server.requests[0].path == "/api/v1/namespaces/ns/pods/a/status"
    assert server.requests[0].headers["Content-Type"] == PatchType.JSON
    assert server.document["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "futureCondition": 3},
        {"type": "PodScheduled", "status": "False"},
    ]


async def test_members_hidden_in_a_map_that_shows_nothing_survive_an_addition_to_it() -> None:
    """`resources` of container one holds nothing that the Struct knows, so it looks as if it were absent."""
    server, client, before = await opened()
    assert before.spec is not None
    one, two = before.spec.containers
    changed = replace(one, resources=replace(one.resources, requests={"cpu": "1"}))
    await client.modify(before, replace(before, spec=replace(before.spec, containers=(changed, two))))
    assert [request.method for request in server.requests] == ["GET", "PATCH"]
    resources = server.document["spec"]["containers"][0]["resources"]
    assert resources == {"futureResource": "r", "requests": {"cpu": "1"}}


async def test_a_map_that_is_really_absent_is_added() -> None:
    server, client, before = await opened()
    assert before.spec is not None
    one, two = before.spec.containers
    changed = replace(two, resources=replace(two.resources, requests={"cpu": "1"}))
    await client.modify(before, replace(before, spec=replace(before.spec, containers=(one, changed))))
    assert server.document["spec"]["containers"][1]["resources"] == {"requests": {"cpu": "1"}}


async def test_a_first_status_needs_no_reading_and_keeps_hidden_members() -> None:
    doc = document()
    doc["status"] = {"futureStatus": True}
    server, client, before = await opened(doc)
    await client.modify(before, replace(before, status=PodStatus(phase="Running")), subresource="status")
    assert [request.method for request in server.requests] == ["PATCH"]
    assert server.document["status"] == {"futureStatus": True, "phase": "Running"}


async def test_a_stale_merge_patch_is_a_conflict() -> None:
    server, client, before = await opened()
    server.document["metadata"]["resourceVersion"] = "6"
    after = replace(before, metadata=replace(before.metadata, labels={}))
    with pytest.raises(Conflict, match="has been modified"):
        await client.modify(before, after)


async def test_a_stale_json_patch_is_a_conflict() -> None:
    server, client, before = await opened()
    server.document["metadata"]["resourceVersion"] = "6"
    assert before.spec is not None
    one, two = before.spec.containers
    after = replace(before, spec=replace(before.spec, containers=(replace(one, image="x"), two)))
    with pytest.raises(Conflict):
        await client.modify(before, after)


async def test_a_json_patch_that_no_longer_applies_to_the_newer_object_is_a_conflict_and_not_invalid() -> None:
    server, client, before = await opened()
    server.document["metadata"]["resourceVersion"] = "6"
    server.document["spec"]["containers"] = []
    assert before.spec is not None
    one, two = before.spec.containers
    after = replace(before, spec=replace(before.spec, containers=(one, replace(two, image="x"))))
    with pytest.raises(Conflict, match="read in version 5 and is in version 6"):
        await client.modify(before, after)


async def test_a_patch_that_the_server_finds_invalid_stays_invalid() -> None:
    server, client, before = await opened()
    del server.document["spec"]["containers"]
    assert before.spec is not None
    one, two = before.spec.containers
    after = replace(before, spec=replace(before.spec, containers=(one, replace(two, image="x"))))
    with pytest.raises(Invalid):
        await client.modify(before, after)


async def test_an_object_that_was_never_read_can_t_be_modified() -> None:
    _, client, before = await opened()
    unread = replace(before, metadata=replace(before.metadata, resourceVersion=""))
    with pytest.raises(ValueError, match="Pod ns/a has no resourceVersion"):
        await client.modify(unread, replace(unread, status=PodStatus(phase="Running")))


async def test_dicts_are_modified_too_nulls_included() -> None:
    server = Server(document())
    client = Client(server)
    before: dict[str, Any] = document()
    await client.modify(before, {**before, "extra": {"null": None, "x": 1}})
    assert server.document["extra"] == {"null": None, "x": 1}
    assert server.document["spec"] == before["spec"]


class Inner(Wire):
    text: str = ""
    number: int = 0
    plain: tuple[str, ...] = ()
    anything: dict[str, Any] = msgspec.field(default_factory=dict)


class Item(Wire):
    name: str = ""
    inner: Inner = Inner()
    maybe: Inner | None = None


class Outer(Wire):
    metadata: ObjectMeta = ObjectMeta(name="o", resourceVersion="1")
    inner: Inner = Inner()
    maybe: Inner | None = None
    items: tuple[Item, ...] = ()
    by_name: dict[str, Inner] = msgspec.field(default_factory=dict)


words = st.sampled_from(["", "a", "b", "c/d~"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
inners = st.builds(
    Inner,
    text=words,
    number=st.integers(0, 2),
    plain=st.lists(words, max_size=2).map(tuple),
    anything=st.dictionaries(words, json_values, max_size=2),
)
items = st.builds(Item, name=words, inner=inners, maybe=st.none() | inners)
outers = st.builds(
    Outer,
    inner=inners,
    maybe=st.none() | inners,
    items=st.lists(items, max_size=3).map(tuple),
    by_name=st.dictionaries(words, inners, max_size=2),
)

UNKNOWN = "unknownMember"


def with_unknown(value: Any) -> Any:
    """The document of `value`, with a member that its Structs don't know in each map that stands for a Struct."""
    if isinstance(value, Wire):
        fields = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(type(value))}
        shown = {name: with_unknown(member) for name, member in fields.items() if member is not None}
        return {**shown, UNKNOWN: 1}
    if isinstance(value, tuple):
        return [with_unknown(element) for element in value]
    if isinstance(value, dict):
        return {key: with_unknown(member) for key, member in value.items()}
    return value


@given(before=outers, after=outers)
def test_whatever_changes_the_result_shows_it_and_unknown_members_stay(before: Outer, after: Outer) -> None:
    doc = with_unknown(before)
    assert msgspec.convert(doc, Outer) == before
    change = modification(before, after)
    if change is None:
        assert before == after
        return
    if change.needs_document:
        change = change.with_document(doc)
    merging = isinstance(change.content, dict)
    result = merge_patch(doc, change.content) if merging else apply_json_patch(doc, change.content)
    assert msgspec.convert(result, Outer) == after
    assert result[UNKNOWN] == 1
    assert result["inner"][UNKNOWN] == 1
    if before.maybe is not None and after.maybe is not None:
        assert result["maybe"][UNKNOWN] == 1
    names = [item.name for item in before.items], [item.name for item in after.items]
    if all(len(set(each)) == len(each) and all(each) for each in names):
        kept = {
            item["name"] for item in result.get("items", []) if UNKNOWN in item and UNKNOWN in item.get("inner", {})
        }
        assert kept >= set(names[0]) & set(names[1])
