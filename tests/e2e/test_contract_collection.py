"""What every API server promises about collections: pages, selectors, deletion of many, discovery."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator

import pytest

from bosket.api.core import ConfigMap, Namespace, Node, Pod
from bosket.api.object import ObjectMeta
from bosket.kube.errors import BadRequest, Gone
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod
from tests.e2e.wire import Wire, on_the_wire

METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = METADATA.replace("Metadata;", "MetadataList;")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
EXACT = {"resourceVersionMatch": "Exact"}
NOT_OLDER = {"resourceVersionMatch": "NotOlderThan"}


@pytest.fixture
async def wire(cluster: Cluster) -> AsyncIterator[Wire]:
    async with on_the_wire(cluster) as opened:
        yield opened


async def make(cluster: Cluster, count: int) -> None:
    await asyncio.gather(
        *(
            cluster.client.create(
                config_map(f"cm-{index:02d}", labels={"parity": "odd" if index % 2 else "even"}), cluster.namespace
            )
            for index in range(count)
        )
    )


async def page(cluster: Cluster, **query: str) -> dict[str, object]:
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    answer: dict[str, object] = json.loads((await cluster.client.raw("GET", path, query=tuple(query.items()))).body)
    return answer


def names(answer: dict[str, object]) -> list[str]:
    items = answer["items"]
    assert isinstance(items, list)
    return [item["metadata"]["name"] for item in items]


async def test_a_long_list_comes_in_pages_of_one_version(cluster: Cluster) -> None:
    await make(cluster, 7)
    first = await page(cluster, limit="3", labelSelector="parity")
    meta = first["metadata"]
    assert isinstance(meta, dict)
    assert names(first) == ["cm-00", "cm-01", "cm-02"]
    # What is created meanwhile belongs to a later version.
    await cluster.client.create(config_map("cm-05a", labels={"parity": "none"}), cluster.namespace)
    second = await page(cluster, limit="9", labelSelector="parity", **{"continue": meta["continue"]})
    assert names(second) == ["cm-03", "cm-04", "cm-05", "cm-06"]
    rest = second["metadata"]
    assert isinstance(rest, dict)
    assert not rest.get("continue")
    assert rest["resourceVersion"] == meta["resourceVersion"]


async def test_the_client_follows_pages_to_the_end(cluster: Cluster) -> None:
    await make(cluster, 7)
    found = await cluster.client.list(ConfigMap, cluster.namespace, labels="parity", page_size=2)
    assert [each.metadata.name for each in found.items] == [f"cm-{index:02d}" for index in range(7)]


async def test_a_place_to_continue_that_the_server_did_not_give_is_refused(cluster: Cluster) -> None:
    with pytest.raises((BadRequest, Gone)):
        await page(cluster, limit="1", **{"continue": "bm90IGEgdG9rZW4"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("parity=even", ["cm-00", "cm-02"]),
        ("parity!=even,parity", ["cm-01", "cm-03"]),
        ("parity in (odd)", ["cm-01", "cm-03"]),
        ("parity notin (odd),parity", ["cm-00", "cm-02"]),
        ("!missing,parity==odd", ["cm-01", "cm-03"]),
    ],
)
async def test_labels_select(cluster: Cluster, selector: str, expected: list[str]) -> None:
    await make(cluster, 4)
    found = await cluster.client.list(ConfigMap, cluster.namespace, labels=selector)
    assert [each.metadata.name for each in found.items] == expected


async def test_a_selector_that_makes_no_sense_is_a_bad_request(cluster: Cluster) -> None:
    with pytest.raises(BadRequest, match="unable to parse"):
        await cluster.client.list(ConfigMap, cluster.namespace, labels="parity in odd")


async def test_fields_select(cluster: Cluster) -> None:
    node, *_ = await cluster.add_nodes(1)
    await cluster.client.create(pod("bound", nodeName=node), cluster.namespace)
    await cluster.client.create(pod("free"), cluster.namespace)

    async def found(fields: str) -> list[str]:
        page = await cluster.client.list(Pod, cluster.namespace, fields=fields)
        return [each.metadata.name for each in page.items]

    assert await found(f"spec.nodeName={node}") == ["bound"]
    assert await found("spec.nodeName=") == ["free"]
    assert await found("metadata.name!=free") == ["bound"]
    assert await found("status.phase=Pending,spec.schedulerName=kai-scheduler,spec.nodeName=") == ["free"]
    with pytest.raises(BadRequest, match=r"spec\.colour"):
        await found("spec.colour=red")


async def test_many_are_deleted_at_once(cluster: Cluster) -> None:
    await make(cluster, 5)
    await cluster.client.delete_collection(ConfigMap, cluster.namespace, labels="parity=odd")
    found = await cluster.client.list(ConfigMap, cluster.namespace, labels="parity")
    assert [each.metadata.name for each in found.items] == ["cm-00", "cm-02", "cm-04"]


async def test_what_the_server_serves_can_be_discovered(cluster: Cluster) -> None:
    found = {(each.group, each.version, each.plural): each for each in await cluster.client.discover()}
    assert found["", "v1", "pods"].namespaced
    assert not found["", "v1", "nodes"].namespaced
    assert "status" in found["", "v1", "pods"].subresources
    assert found["apps", "v1", "deployments"].kind == "Deployment"
    assert "pg" in found["scheduling.run.ai", "v2alpha2", "podgroups"].short_names
    assert not found["scheduling.run.ai", "v2", "queues"].namespaced


async def test_cluster_scoped_objects_are_listed_without_a_namespace(cluster: Cluster) -> None:
    added = await cluster.add_nodes(2, labels={"pool": cluster.namespace})
    found = await cluster.client.list(Node, labels=f"pool={cluster.namespace}")
    assert [each.metadata.name for each in found.items] == added


# versions


async def test_the_state_of_a_past_version_can_be_listed(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 3)
    version = (await page(cluster, labelSelector="parity"))["metadata"]["resourceVersion"]  # type: ignore[index]
    await cluster.client.patch(ConfigMap, "cm-01", {"data": {"k": "new"}}, namespace=cluster.namespace)
    await cluster.client.delete(ConfigMap, "cm-02", cluster.namespace)
    await cluster.client.create(config_map("cm-03", labels={"parity": "odd"}), cluster.namespace)
    past = await wire.list("configmaps", labelSelector="parity", resourceVersion=version, **EXACT)
    assert past.status == 200
    assert names(past.body) == ["cm-00", "cm-01", "cm-02"]
    assert past.body["metadata"]["resourceVersion"] == version
    assert "new" not in str(past.body["items"][1].get("data"))
    now = await wire.list("configmaps", labelSelector="parity", resourceVersion=version, **NOT_OLDER)
    assert names(now.body) == ["cm-00", "cm-01", "cm-03"]
    assert int(now.body["metadata"]["resourceVersion"]) > int(version)
    # A past version comes in pages, too.
    first = await wire.list("configmaps", labelSelector="parity", resourceVersion=version, limit="2", **EXACT)
    assert names(first.body) == ["cm-00", "cm-01"]
    token = first.body["metadata"]["continue"]
    second = await wire.list("configmaps", labelSelector="parity", limit="2", **{"continue": token})
    assert names(second.body) == ["cm-02"]
    assert second.body["metadata"]["resourceVersion"] == version


async def test_a_version_of_the_future_is_refused_for_now(wire: Wire) -> None:
    version = (await wire.list("configmaps")).body["metadata"]["resourceVersion"]
    future = str(int(version) + 1_000_000)
    refused = await wire.list("configmaps", resourceVersion=future)
    assert (refused.status, refused.reason) == (504, "Timeout")
    assert refused.causes == [("ResourceVersionTooLarge", "")]
    assert "Too large resource version" in refused.message
    assert refused.headers["retry-after"] == "1"
    assert (await wire.list("configmaps", resourceVersion="soon")).status == 400


async def test_options_of_a_list_that_do_not_go_together_are_refused(wire: Wire) -> None:
    match, initial = ("FieldValueForbidden", "resourceVersionMatch"), ("FieldValueForbidden", "sendInitialEvents")
    unknown = {"resourceVersionMatch": "About", "resourceVersion": "1"}
    for options, causes in (
        (EXACT, [match]),
        (NOT_OLDER, [match]),
        ({**EXACT, "resourceVersion": "0"}, [match]),
        (unknown, [("FieldValueNotSupported", "resourceVersionMatch")]),
        ({"sendInitialEvents": "true"}, [initial]),
        ({"sendInitialEvents": "false", **NOT_OLDER}, [match, initial]),
        ({"continue": "x", **EXACT}, [match, match]),
    ):
        refused = await wire.list("configmaps", **options)
        assert (refused.status, refused.reason) == (422, "Invalid")
        assert refused.causes == causes
        assert refused.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')


async def test_numbers_that_are_none_are_refused_and_less_than_none_is_none(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 3)
    assert (await wire.list("configmaps", limit="many")).status == 400
    assert (await wire.list("configmaps", timeoutSeconds="soon")).status == 400
    assert len(names((await wire.list("configmaps", labelSelector="parity", limit="-1")).body)) == 3
    assert len(names((await wire.list("configmaps", labelSelector="parity", limit="0")).body)) == 3
    assert len(names((await wire.list("configmaps", labelSelector="parity", colour="red")).body)) == 3


# pages


async def test_a_page_says_how_many_are_left_where_all_are_meant(cluster: Cluster, wire: Wire) -> None:
    await cluster.client.create(config_map("a"), cluster.namespace)
    await cluster.client.create(config_map("b"), cluster.namespace)
    await cluster.eventually(lambda: wire_has(wire, "kube-root-ca.crt"))
    first = (await wire.list("configmaps", limit="1")).body
    assert first["metadata"]["remainingItemCount"] == 2
    assert names(first) == ["a"]
    selected = (await wire.list("configmaps", limit="1", fieldSelector="metadata.namespace=" + cluster.namespace)).body
    assert "remainingItemCount" not in selected["metadata"]
    assert selected["metadata"]["continue"]
    whole = (await wire.list("configmaps", limit="3")).body
    assert not whole["metadata"].get("continue")
    assert "remainingItemCount" not in whole["metadata"]


async def wire_has(wire: Wire, name: str) -> bool:
    """A controller puts one into every namespace; embedded clusters have no need of it."""
    found = await wire.get("configmaps", name)
    if found.status == 404:
        await wire.create("configmaps", config_map(name))
    return found.status == 200


async def test_a_page_can_be_had_again_and_is_the_same(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 5)
    token = (await wire.list("configmaps", labelSelector="parity", limit="2")).body["metadata"]["continue"]
    expected = ["cm-02", "cm-03", "cm-04"]
    for _ in range(2):
        again = await wire.list("configmaps", labelSelector="parity", **{"continue": token})
        assert names(again.body) == expected
        await wire.delete("configmaps", "cm-03")
    zero = await wire.list("configmaps", labelSelector="parity", resourceVersion="0", **{"continue": token})
    assert names(zero.body) == expected
    refused = await wire.list("configmaps", labelSelector="parity", resourceVersion="5", **{"continue": token})
    assert refused.status == 400
    assert refused.message == "specifying resource version is not allowed when using continue"


async def test_pages_reach_across_namespaces(cluster: Cluster, wire: Wire) -> None:
    here, other = cluster.namespace, f"{cluster.namespace}-2"
    await cluster.add(Namespace(metadata=ObjectMeta(name=other)))
    for namespace, name in ((here, "a"), (here, "b"), (other, "c"), (here, "d"), (other, "e")):
        await cluster.client.create(config_map(name, labels={"test": here}), namespace)
    found, token = [], ""
    while True:
        options = {"labelSelector": f"test={here}", "limit": "2", "continue": token}
        answer = (await wire.send("GET", "/api/v1/configmaps", **options)).body
        found += [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in answer["items"]]
        token = answer["metadata"].get("continue", "")
        if not token:
            break
    # As etcd sorts the keys: a dash comes before a slash.
    assert found == [f"{other}/c", f"{other}/e", f"{here}/a", f"{here}/b", f"{here}/d"]


async def test_whoever_takes_any_version_is_given_all_at_once(cluster: Cluster, wire: Wire) -> None:
    """From memory, where pages would save nothing."""
    await make(cluster, 3)
    await cluster.eventually(lambda: _counted(wire, 3))
    answer = await wire.list("configmaps", labelSelector="parity", limit="1", resourceVersion="0")
    assert len(names(answer.body)) == 3
    assert not answer.body["metadata"].get("continue")


async def _counted(wire: Wire, count: int) -> bool:
    return len(names((await wire.list("configmaps", labelSelector="parity", resourceVersion="0")).body)) == count


# forms


async def test_objects_of_a_list_leave_out_what_the_list_says(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 1)
    listed = (await wire.list("configmaps", labelSelector="parity")).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert not listed["items"][0].keys() & {"kind", "apiVersion"}
    single = (await wire.get("configmaps", "cm-00")).body
    assert (single["kind"], single["apiVersion"]) == ("ConfigMap", "v1")
    queues = (await wire.send("GET", "/apis/scheduling.run.ai/v2/queues")).body
    assert queues["kind"] == "QueueList"
    assert {(each["kind"], each["apiVersion"]) for each in queues["items"]} == {("Queue", "scheduling.run.ai/v2")}


async def test_metadata_is_to_be_had_by_itself(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 2)
    listed = (await wire.list("configmaps", accept=METADATA_LIST, labelSelector="parity", limit="1")).body
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert listed["metadata"]["continue"]
    (item,) = listed["items"]
    assert item.keys() == {"kind", "apiVersion", "metadata"}
    assert (item["kind"], item["metadata"]["name"]) == ("PartialObjectMetadata", "cm-00")
    path = wire.path("configmaps", "cm-00")
    one = (await wire.send("GET", path, accept=METADATA)).body
    assert one.keys() == {"kind", "apiVersion", "metadata"}
    assert one["metadata"]["labels"] == {"parity": "even"}
    older = (await wire.send("GET", path, accept=METADATA.replace("v=v1", "v=v1beta1"))).body
    assert older["apiVersion"] == "meta.k8s.io/v1beta1"
    deleted = (await wire.send("DELETE", path, accept=METADATA)).body
    assert deleted["kind"] == "Status"
    mistaken = await wire.list("configmaps", accept=METADATA)
    assert (mistaken.status, mistaken.reason) == (406, "NotAcceptable")
    assert (await wire.send("GET", wire.path("configmaps", "cm-01"), accept=METADATA_LIST)).status == 406


async def test_the_first_form_that_the_server_has_is_given(wire: Wire) -> None:
    no_table, no_chair = TABLE.replace("v=v1", "v=v7"), TABLE.replace("Table", "Chair")
    for accept, kind in (
        ("*/*", "ConfigMapList"),
        ("application/json", "ConfigMapList"),
        ("text/html, application/json;q=0.5", "ConfigMapList"),
        (f"{TABLE},application/json", "Table"),
        (f"{no_table},application/json", "ConfigMapList"),
        (f"{no_table},{METADATA_LIST},application/json", "PartialObjectMetadataList"),
    ):
        answer = await wire.list("configmaps", accept=accept)
        assert (answer.status, answer.body["kind"]) == (200, kind)
    for accept in ("text/html", no_table, no_chair):
        refused = await wire.list("configmaps", accept=accept)
        assert (refused.status, refused.reason) == (406, "NotAcceptable")


async def test_tables_are_for_people(cluster: Cluster, wire: Wire) -> None:
    await make(cluster, 2)
    table = (await wire.list("configmaps", accept=TABLE, labelSelector="parity", limit="1")).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"]["continue"]
    columns = table["columnDefinitions"]
    assert [column["name"] for column in columns] == ["Name", "Data", "Age"]
    assert (columns[0]["type"], columns[0]["format"], columns[0]["priority"]) == ("string", "name", 0)
    (row,) = table["rows"]
    assert row["cells"][:2] == ["cm-00", 0]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    path = wire.path("configmaps", "cm-00")
    nothing = (await wire.send("GET", path, accept=TABLE, includeObject="None")).body
    assert nothing["rows"][0]["object"] is None
    whole = (await wire.send("GET", path, accept=TABLE, includeObject="Object")).body
    assert whole["rows"][0]["object"]["kind"] == "ConfigMap"
    refused = await wire.send("GET", path, accept=TABLE, includeObject="Half")
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert "must be 'Metadata', 'Object', 'None', or empty" in refused.message
    missing = await wire.send("GET", wire.path("configmaps", "missing"), accept=TABLE)
    assert (missing.status, missing.body["kind"]) == (404, "Status")


async def test_tables_of_custom_kinds_have_the_columns_of_their_definition(wire: Wire) -> None:
    path = "/apis/scheduling.run.ai/v2/queues"
    table = (await wire.send("GET", path, accept=TABLE)).body
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.scheduling.run.ai"
    versions = (await wire.send("GET", definition)).body["spec"]["versions"]
    expected = next(each for each in versions if each["name"] == "v2").get("additionalPrinterColumns")
    assert [column["name"] for column in table["columnDefinitions"][1:]] == [each["name"] for each in expected]
    assert table["rows"]
    assert all(len(row["cells"]) == len(expected) + 1 for row in table["rows"])


async def test_large_answers_are_compressed_for_those_who_take_them_so(cluster: Cluster, wire: Wire) -> None:
    letters = random.Random(1).choices("abcdefgh", k=200_000)
    await wire.create("configmaps", {**config_map("big", labels={"size": "l"}), "data": {"k": "".join(letters)}})
    await wire.create("configmaps", config_map("small", labels={"size": "s"}))
    plain = await wire.list("configmaps", labelSelector="size=l")
    assert "content-encoding" not in plain.headers
    packed = await wire.list("configmaps", labelSelector="size=l", encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.body["items"] == plain.body["items"]
    small = await wire.list("configmaps", labelSelector="size=s", encoding="gzip")
    assert "content-encoding" not in small.headers


# selectors of particular kinds


async def test_kinds_have_fields_of_their_own_to_select_by(cluster: Cluster, wire: Wire) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "example.com/colour"}
    await wire.create("secrets", secret)

    async def found(path: str, fields: str) -> list[str]:
        answer = await wire.send("GET", path, fieldSelector=fields)
        assert answer.status == 200, answer.body
        return names(answer.body)

    secrets = wire.path("secrets")
    assert await found(secrets, "type=example.com/colour") == ["s"]
    assert await found(secrets, "type!=example.com/colour,metadata.name=s") == []
    assert cluster.namespace in await found("/api/v1/namespaces", "status.phase=Active")
    assert await found("/api/v1/namespaces", f"metadata.name={cluster.namespace}") == [cluster.namespace]
    (node,) = await cluster.add_nodes(1)
    assert node in await found("/api/v1/nodes", "spec.unschedulable=false")
    await wire.create("pods", pod("p", restartPolicy="Never"))
    pods = wire.path("pods")
    assert await found(pods, "spec.restartPolicy=Never") == ["p"]
    assert await found(pods, "spec.restartPolicy!=Never") == []
    assert await found(pods, "metadata.name=p,status.phase!=Running") == ["p"]
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": cluster.namespace}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about, "reason": "Why"}
    await wire.create("events", event)
    events = wire.path("events")
    assert await found(events, "involvedObject.name=p,reason=Why") == ["e"]
    assert await found(events, "involvedObject.kind!=Pod") == []
