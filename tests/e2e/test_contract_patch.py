"""What every API server promises about patches, replacements, dry runs, preconditions and unknown fields."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bosket.kube.client import PatchType
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod
from tests.e2e.wire import Answer, Wire, on_the_wire

DEPLOYMENTS = "apps/v1/deployments"
POD_GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},
            "spec": {
                "schedulerName": "nobody",
                "containers": [
                    {
                        "name": "one",
                        "image": "example.com/one:1",
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "ports": [{"containerPort": 80, "name": "http"}],
                    },
                    {"name": "two", "image": "example.com/two:1"},
                ],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "s1"}],
                "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}],
            },
        },
    },
}
DATA = {"a": "1", "b": "2"}


@pytest.fixture
async def wire(cluster: Cluster) -> AsyncIterator[Wire]:
    async with on_the_wire(cluster) as opened:
        yield opened


async def strategic(wire: Wire, spec: dict[str, Any]) -> dict[str, Any]:
    """The pod template's spec after a strategic merge patch of it; nothing is kept."""
    body = {"spec": {"template": {"spec": spec}}}
    answer = await wire.patch(DEPLOYMENTS, "d", body, PatchType.STRATEGIC, dryRun="All")
    assert answer.status == 200, answer.body
    result: dict[str, Any] = answer.body["spec"]["template"]["spec"]
    return result


def names(elements: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in elements]


async def test_a_strategic_patch_merges_replaces_removes_and_orders(wire: Wire) -> None:
    assert (await wire.create(DEPLOYMENTS, DEPLOYMENT)).status == 201

    async def env(*patch: dict[str, Any]) -> list[tuple[str, str]]:
        spec = await strategic(wire, {"containers": [{"name": "one", "env": list(patch)}]})
        assert names(spec["containers"]) == ["one", "two"]
        return [(each["name"], each["value"]) for each in spec["containers"][0]["env"]]

    # What a patch adds goes to the front, what it changes stays where it was.
    assert await env({"name": "B", "value": "3"}) == [("A", "1"), ("B", "3")]
    assert await env({"name": "C", "value": "3"}) == [("C", "3"), ("A", "1"), ("B", "2")]
    assert await env({"name": "A", "$patch": "delete"}) == [("B", "2")]
    assert await env({"$patch": "replace"}, {"name": "Z", "value": "9"}) == [("Z", "9")]

    added = {"name": "three", "image": "example.com/three:1"}
    assert names((await strategic(wire, {"containers": [added]}))["containers"]) == ["three", "one", "two"]
    order = "$setElementOrder/containers"
    swapped = await strategic(wire, {order: [{"name": "two"}, {"name": "one"}]})
    assert names(swapped["containers"]) == ["two", "one"]
    between = await strategic(
        wire, {order: [{"name": "one"}, {"name": "three"}, {"name": "two"}], "containers": [added]}
    )
    assert names(between["containers"]) == ["one", "three", "two"]
    assert names((await strategic(wire, {"containers": [{"name": "two", "$patch": "delete"}]}))["containers"]) == [
        "one"
    ]
    ports = await strategic(
        wire, {"containers": [{"name": "one", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]}
    )
    assert ports["containers"][0]["ports"] == [{"containerPort": 80, "name": "http", "protocol": "UDP"}]

    assert (await strategic(wire, {"tolerations": [{"key": "other", "operator": "Exists"}]}))["tolerations"] == [
        {"key": "other", "operator": "Exists"}
    ]
    assert "tolerations" not in await strategic(wire, {"tolerations": None})
    assert names((await strategic(wire, {"imagePullSecrets": [{"name": "s2"}]}))["imagePullSecrets"]) == ["s2", "s1"]
    aliases = (await strategic(wire, {"hostAliases": [{"ip": "1.1.1.2", "hostnames": ["b"]}]}))["hostAliases"]
    assert [each["ip"] for each in aliases] == ["1.1.1.2", "1.1.1.1"]
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    assert (await strategic(wire, {"volumes": [volume]}))["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x", "type": ""}}
    ]


async def test_a_strategic_patch_of_maps_knows_the_same_directives(wire: Wire) -> None:
    await wire.create(DEPLOYMENTS, DEPLOYMENT)

    async def template(metadata: dict[str, Any]) -> dict[str, Any]:
        body = {"spec": {"template": {"metadata": metadata}}}
        answer = await wire.patch(DEPLOYMENTS, "d", body, PatchType.STRATEGIC, dryRun="All")
        result: dict[str, Any] = answer.body["spec"]["template"]["metadata"]
        return result

    assert (await template({"annotations": {"z": "1"}}))["annotations"] == {"x": "y", "z": "1"}
    assert (await template({"annotations": {"$patch": "replace", "z": "1"}}))["annotations"] == {"z": "1"}
    assert "annotations" not in await template({"annotations": {"$patch": "delete"}})
    body = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    answer = await wire.patch(DEPLOYMENTS, "d", body, PatchType.STRATEGIC, dryRun="All")
    assert answer.body["spec"]["strategy"] == {"type": "Recreate"}
    refused = await wire.patch(DEPLOYMENTS, "d", {"spec": {"replicas": "x"}}, PatchType.STRATEGIC)
    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "patch")])


async def test_finalizers_are_a_set_of_names_to_a_strategic_patch(wire: Wire) -> None:
    await wire.create("configmaps", config_map("c", None, finalizers=["x.io/a", "x.io/b"]))

    async def finalizers(patch: dict[str, Any]) -> list[str]:
        answer = await wire.patch("configmaps", "c", {"metadata": patch}, PatchType.STRATEGIC)
        result: list[str] = answer.body["metadata"]["finalizers"]
        return result

    assert await finalizers({"finalizers": ["x.io/c"]}) == ["x.io/c", "x.io/a", "x.io/b"]
    assert await finalizers({"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}) == ["x.io/c", "x.io/b"]
    assert await finalizers({"$setElementOrder/finalizers": ["x.io/b", "x.io/c"]}) == ["x.io/b", "x.io/c"]
    await wire.patch("configmaps", "c", {"metadata": {"finalizers": None}}, PatchType.MERGE)


async def test_a_json_patch_is_read_as_kubernetes_reads_it(wire: Wire) -> None:
    await wire.create("configmaps", config_map("c", DATA, annotations={"x": "y"}))

    async def patch(*operations: dict[str, Any]) -> Answer:
        return await wire.patch("configmaps", "c", list(operations), PatchType.JSON, dryRun="All")

    async def data(*operations: dict[str, Any]) -> Any:
        return (await patch(*operations)).body["data"]

    assert await data({"op": "move", "from": "/data/b", "path": "/data/c"}) == {"a": "1", "c": "2"}
    assert await data({"op": "copy", "from": "/data/b", "path": "/data/c"}) == {**DATA, "c": "2"}
    assert await data({"op": "replace", "path": "/data/new", "value": "3"}) == {**DATA, "new": "3"}
    assert await data({"op": "test", "path": "/data/none", "value": None}) == DATA
    assert await data() == DATA
    escaped = await patch({"op": "add", "path": "/metadata/annotations/a~1b", "value": "z"})
    assert escaped.body["metadata"]["annotations"] == {"x": "y", "a/b": "z"}
    for operation in (
        {"op": "test", "path": "/data/a", "value": "2"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/a", "value": "1"},
        {"op": "explode", "path": "/data/a"},
        {"op": "add", "value": "1"},
    ):
        refused = await patch(operation)
        assert (refused.status, refused.reason) == (422, "Invalid"), operation
        assert refused.message.startswith("the server rejected our request due to an error in our request")
    assert (await patch({"op": "replace", "path": "/data", "value": [1]})).causes == [("FieldValueInvalid", "patch")]
    assert (await patch({"op": "replace", "path": "/kind", "value": "Secret"})).status == 422
    assert (await patch({"op": "replace", "path": "/metadata/name", "value": "d"})).status == 400
    moved = await patch({"op": "replace", "path": "/metadata/uid", "value": "d"})
    assert (moved.status, moved.causes) == (422, [("FieldValueInvalid", "metadata.uid")])
    stale = {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
    assert (await patch(stale, {"op": "add", "path": "/data/c", "value": "3"})).reason == "Conflict"
    not_a_list = await wire.patch("configmaps", "c", {"op": "add"}, PatchType.JSON)
    assert (not_a_list.status, not_a_list.reason) == (400, "BadRequest")
    too_many = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    assert (await wire.patch("configmaps", "c", too_many, PatchType.JSON)).status == 413


async def test_a_merge_patch_is_checked_like_a_replacement(wire: Wire) -> None:
    await wire.create("configmaps", config_map("c", DATA))

    async def patch(body: Any, name: str = "c", kind: str = PatchType.MERGE) -> Answer:
        return await wire.send("PATCH", wire.path("configmaps", name), body, content_type=kind)

    assert (await patch({"data": {"b": None, "c": "3"}})).body["data"] == {"a": "1", "c": "3"}
    stale = await patch({"metadata": {"resourceVersion": "1"}, "data": {"z": "1"}})
    assert (stale.status, stale.reason) == (409, "Conflict")
    assert "the object has been modified" in stale.message
    for wrong in ({"data": {"z": 1}}, {"metadata": {"labels": {"z": 1}}}, {"kind": "Other"}):
        assert (await patch(wrong)).causes == [("FieldValueInvalid", "patch")], wrong
    assert (await patch({"metadata": {"name": "other"}})).status == 400
    assert (await patch({"metadata": {"namespace": "other"}})).status == 400
    assert (await patch({"data": {}}, name="nothere")).status == 404
    assert (await patch(["x"])).status == 400
    assert (await patch(b"{nope")).status == 400
    for kind in ("application/json", "text/plain"):
        refused = await patch({"data": {}}, kind=kind)
        assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


async def test_a_custom_resource_takes_merge_and_json_patches_and_no_strategic_ones(wire: Wire) -> None:
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    await wire.create(POD_GROUPS, {**group, "spec": {"minMember": 2}})
    refused = await wire.patch(POD_GROUPS, "g", {"spec": {"minMember": 3}}, PatchType.STRATEGIC)
    assert refused.status == 415
    assert PatchType.MERGE in refused.message
    assert (await wire.patch(POD_GROUPS, "g", {"spec": {"minMember": 3}}, PatchType.MERGE)).body["spec"] == {
        "minMember": 3
    }
    by_json = await wire.patch(POD_GROUPS, "g", [{"op": "remove", "path": "/spec/minMember"}], PatchType.JSON)
    assert "minMember" not in by_json.body["spec"]
    read = (await wire.get(POD_GROUPS, "g")).body
    del read["metadata"]["resourceVersion"]
    unversioned = await wire.replace(POD_GROUPS, "g", read)
    assert (unversioned.status, unversioned.causes) == (422, [("FieldValueInvalid", "metadata.resourceVersion")])


async def test_fields_that_nobody_knows_are_dropped_and_told_of_or_refused(wire: Wire) -> None:
    unknown = {**config_map("c", DATA), "colour": "red"}
    warned = await wire.create("configmaps", unknown, dryRun="All")
    assert (warned.status, warned.warnings) == (201, '299 - "unknown field "colour""')
    assert "colour" not in warned.body
    ignored = await wire.create("configmaps", unknown, dryRun="All", fieldValidation="Ignore")
    assert (ignored.status, ignored.warnings) == (201, "")
    strict = await wire.create("configmaps", unknown, fieldValidation="Strict")
    assert (strict.status, strict.reason) == (400, "BadRequest")
    assert strict.message.endswith('strict decoding error: unknown field "colour"')
    deep = pod("p")
    deep["spec"]["containers"][0]["size"] = 1
    deep["metadata"]["flavour"] = "x"
    refused = await wire.create("pods", deep, fieldValidation="Strict")
    assert 'unknown field "spec.containers[0].size"' in refused.message
    assert 'unknown field "metadata.flavour"' in refused.message
    twice = b'{"metadata": {"name": "c"}, "data": {"a": "1", "a": "2"}}'
    warned = await wire.create("configmaps", twice, dryRun="All", fieldValidation="Warn")
    assert (warned.body["data"], warned.warnings) == ({"a": "2"}, '299 - "duplicate field "data.a""')
    assert (await wire.create("configmaps", twice, fieldValidation="Strict")).status == 400
    other = await wire.create("configmaps", unknown, fieldValidation="Sometimes")
    assert (other.status, other.causes) == (422, [("FieldValueNotSupported", "fieldValidation")])

    await wire.create("configmaps", config_map("c", DATA))
    patched = await wire.patch("configmaps", "c", {"colour": "red"}, PatchType.MERGE, fieldValidation="Strict")
    assert (patched.status, patched.causes) == (422, [("FieldValueInvalid", "patch")])
    assert 'strict decoding error: unknown field "colour"' in patched.message
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    custom = await wire.create(POD_GROUPS, {**group, "spec": {"colour": "red"}}, dryRun="All")
    assert custom.warnings == '299 - "unknown field "spec.colour""'
    assert "colour" not in custom.body["spec"]
    assert (await wire.create(POD_GROUPS, {**group, "spec": {"colour": "red"}}, fieldValidation="Strict")).status == 400


async def test_a_replacement_must_be_of_the_same_object_in_its_present_state(wire: Wire) -> None:
    made = (await wire.create("configmaps", config_map("c", DATA))).body

    async def replaced(name: str = "c", **metadata: str | None) -> Answer:
        doc = copy.deepcopy(made)
        for key, value in metadata.items():
            doc["metadata"][key] = value
        return await wire.replace("configmaps", name, doc)

    assert (await replaced(name="c", namespace="other")).status == 400
    assert (await wire.replace("configmaps", "other", made)).status == 400
    another = await replaced(uid="11111111-1111-1111-1111-111111111111")
    assert (another.status, another.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in another.message
    assert (await replaced(resourceVersion="1")).status == 409
    assert (await replaced(resourceVersion=None)).status == 200
    missing = {**made, "metadata": {"name": "none"}}
    assert (await wire.replace("configmaps", "none", missing)).status == 404
    long = await wire.replace("configmaps", "c", made, fieldManager="x" * 129)
    assert (long.status, long.causes) == (422, [("FieldValueTooLong", "fieldManager")])


async def test_a_dry_run_answers_and_leaves_everything_as_it_was(wire: Wire) -> None:
    await wire.create("configmaps", config_map("c", DATA))
    before = (await wire.get("configmaps", "c")).body
    changed = await wire.patch("configmaps", "c", {"data": {"z": "1"}}, PatchType.MERGE, dryRun="All")
    assert changed.body["data"] == {**DATA, "z": "1"}
    replaced = await wire.replace("configmaps", "c", {**before, "data": {}}, dryRun="All")
    assert replaced.status == 200
    assert (await wire.delete("configmaps", "c", dryRun="All")).status == 200
    assert (await wire.delete("configmaps", "c", {"dryRun": ["All"]})).status == 200
    applied = await wire.apply("configmaps", "c", config_map("c", {"y": "1"}), "me", dryRun="All")
    assert applied.body["data"]["y"] == "1"
    made = await wire.apply("configmaps", "new", config_map("new"), "me", dryRun="All")
    assert made.status == 201
    assert (await wire.get("configmaps", "c")).body == before
    assert (await wire.get("configmaps", "new")).status == 404
    await wire.create("pods", pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert (await wire.send("POST", wire.path("pods", "p/binding"), binding, dryRun="All")).status == 201
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await wire.send("POST", wire.path("pods", "p/eviction"), eviction, dryRun="All")).status == 201
    kept = (await wire.get("pods", "p")).body
    assert "nodeName" not in kept["spec"]
    assert "deletionTimestamp" not in kept["metadata"]
    for query in ("Some", "all"):
        refused = await wire.create("configmaps", config_map("x"), dryRun=query)
        assert (refused.status, refused.causes) == (422, [("FieldValueNotSupported", "dryRun")])


async def test_a_deletion_may_insist_on_an_object_and_its_state(wire: Wire) -> None:
    made = (await wire.create("configmaps", config_map("c", DATA))).body["metadata"]
    for precondition in ({"uid": "another"}, {"resourceVersion": "1"}):
        refused = await wire.delete("configmaps", "c", {"preconditions": precondition})
        assert (refused.status, refused.reason) == (409, "Conflict")
        assert "does not match" in refused.message
    right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    # A body is the whole of what is asked: the query doesn't count beside it.
    assert (await wire.delete("configmaps", "c", {"preconditions": right}, dryRun="All")).status == 200
    assert (await wire.get("configmaps", "c")).status == 404
