"""What every API server promises about server-side apply: who owns what, and what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bosket.kube.client import PatchType
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map
from tests.e2e.wire import Answer, Wire, on_the_wire

DEPLOYMENTS = "apps/v1/deployments"
POD_GROUPS = "scheduling.run.ai/v2alpha2/podgroups"
CONFLICT = "FieldManagerConflict"


@pytest.fixture
async def wire(cluster: Cluster) -> AsyncIterator[Wire]:
    async with on_the_wire(cluster) as opened:
        yield opened


def deployment(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def containers(*each: dict[str, Any]) -> dict[str, Any]:
    return {"template": {"spec": {"containers": list(each)}}}


def template(answer: Answer) -> dict[str, Any]:
    """The pod's spec, containers by name."""
    spec: dict[str, Any] = answer.body["spec"]["template"]["spec"]
    return {each["name"]: each for each in spec["containers"]}


async def test_an_applier_owns_what_it_applies_and_takes_away_what_it_no_longer_does(wire: Wire) -> None:
    async def apply(data: dict[str, str], manager: str, **query: str) -> Answer:
        return await wire.apply("configmaps", "c", config_map("c", data), manager, **query)

    made = await apply({"one": "1", "two": "2"}, "first")
    assert made.status == 201
    assert made.managers() == {("first", "Apply", ""): {"f:data": {"f:one": {}, "f:two": {}}}}
    entry = made.body["metadata"]["managedFields"][0]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("v1", "FieldsV1")
    assert entry["time"].endswith("Z")
    assert (await apply({"one": "1"}, "first")).body["data"] == {"one": "1"}

    refused = await apply({"one": "2"}, "second")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "first": .data.one'
    assert refused.causes == [(CONFLICT, ".data.one")]
    # To want the same is no conflict; both own it.
    shared = await apply({"one": "1"}, "second")
    assert shared.managers() == {
        ("first", "Apply", ""): {"f:data": {"f:one": {}}},
        ("second", "Apply", ""): {"f:data": {"f:one": {}}},
    }
    assert (await apply({"one": "1", "more": "x"}, "first")).body["data"] == {"one": "1", "more": "x"}
    forced = await apply({"one": "2"}, "second", force="true")
    assert forced.body["data"] == {"one": "2", "more": "x"}
    assert forced.managers()["first", "Apply", ""] == {"f:data": {"f:more": {}}}
    # What another owns stays when the first lets go of everything.
    left = await apply({}, "first")
    assert left.body["data"] == {"one": "2"}
    assert left.managers()["first", "Apply", ""] == {"f:data": {}}


async def test_those_who_update_own_what_they_change(wire: Wire) -> None:
    await wire.apply("configmaps", "c", config_map("c", {"a": "1", "b": "2"}), "applier")

    async def update(body: dict[str, Any], manager: str) -> Answer:
        return await wire.patch("configmaps", "c", body, PatchType.MERGE, fieldManager=manager)

    changed = await update({"data": {"a": "3", "new": "4"}}, "editor")
    assert changed.managers() == {
        ("applier", "Apply", ""): {"f:data": {"f:b": {}}},
        ("editor", "Update", ""): {"f:data": {"f:a": {}, "f:new": {}}},
    }
    same = await update({"data": {"a": "3"}}, "somebody")
    assert same.managers() == changed.managers()
    labelled = await update({"metadata": {"labels": {"l": "1"}, "annotations": {"x": "y"}}}, "labeller")
    assert labelled.managers()["labeller", "Update", ""] == {
        "f:metadata": {"f:annotations": {".": {}, "f:x": {}}, "f:labels": {".": {}, "f:l": {}}}
    }
    gone = await update({"data": {"new": None}}, "remover")
    assert gone.managers()["editor", "Update", ""] == {"f:data": {"f:a": {}}}
    assert ("remover", "Update", "") not in gone.managers()
    refused = await wire.apply("configmaps", "c", config_map("c", {"a": "1", "b": "2"}), "applier")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.a'
    several = config_map("c", {"a": "1"}, labels={"l": "2"})
    refused = await wire.apply("configmaps", "c", several, "other")
    assert sorted(refused.causes) == [(CONFLICT, ".data.a"), (CONFLICT, ".metadata.labels.l")]
    reset = await wire.patch("configmaps", "c", {"metadata": {"managedFields": [{}]}}, PatchType.MERGE)
    assert "managedFields" not in reset.body["metadata"]


async def test_an_object_that_was_not_applied_belongs_to_those_who_named_themselves_when_they_wrote_it(
    wire: Wire,
) -> None:
    made = await wire.create(
        "configmaps", config_map("c", {"a": "1", "b": "2"}, labels={"x": "y"}), fieldManager="maker"
    )
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}}
    assert made.managers() == {("maker", "Update", ""): {"f:data": {".": {}, "f:a": {}, "f:b": {}}, **labels}}
    edited = await wire.patch("configmaps", "c", {"data": {"b": "3"}}, PatchType.MERGE, fieldManager="editor")
    assert edited.managers() == {
        ("maker", "Update", ""): {"f:data": {".": {}, "f:a": {}}, **labels},
        ("editor", "Update", ""): {"f:data": {"f:b": {}}},
    }
    refused = await wire.apply("configmaps", "c", config_map("c", {"b": "4"}), "applier")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.b'
    agreed = await wire.apply("configmaps", "c", config_map("c", {"a": "1", "c": "5"}), "applier")
    assert agreed.managers()["applier", "Apply", ""] == {"f:data": {"f:a": {}, "f:c": {}}}
    assert agreed.managers()["maker", "Update", ""] == {"f:data": {".": {}, "f:a": {}}, **labels}
    # What was shared stays with the other owner.
    less = await wire.apply("configmaps", "c", config_map("c", {"c": "5"}), "applier")
    assert less.body["data"] == {"a": "1", "b": "3", "c": "5"}
    # Who owns what may be written, too, as kubectl does when it changes from one way of applying to the other.
    listed = less.body["metadata"]["managedFields"]
    kept = [each for each in listed if each["manager"] != "editor"]
    moved = await wire.patch(
        "configmaps", "c", {"metadata": {"managedFields": kept}}, PatchType.MERGE, fieldManager="x"
    )
    assert ("editor", "Update", "") not in moved.managers()
    taken = await wire.apply("configmaps", "c", config_map("c", {"b": "4", "c": "5"}), "applier")
    assert taken.body["data"]["b"] == "4"
    spec = {
        "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "example.com/c:1", "ports": [{"containerPort": 80}]}],
    }
    pod = await wire.create("pods", {"metadata": {"name": "p"}, "spec": spec}, fieldManager="maker")
    owned = pod.managers()["maker", "Update", ""]["f:spec"]
    assert "f:priority" not in owned
    assert owned["f:containers"]['k:{"name":"c"}']["f:ports"] == {
        ".": {},
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:protocol": {}},
    }


async def test_elements_of_lists_are_owned_apart(wire: Wire) -> None:
    one = {
        "name": "one",
        "image": "example.com/one:1",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
    }
    labels = {"a": "b"}
    base = {"replicas": 0, "selector": {"matchLabels": labels}}

    def whole(container: dict[str, Any]) -> dict[str, Any]:
        body = {"metadata": {"labels": labels}, "spec": {"schedulerName": "nobody", "containers": [container]}}
        return deployment(**base, template=body)

    made = await wire.apply(DEPLOYMENTS, "d", whole(one), "base")
    assert made.status == 201
    owned = made.managers()["base", "Apply", ""]["f:spec"]
    assert owned["f:selector"] == {}
    assert owned["f:template"]["f:spec"]["f:containers"] == {
        'k:{"name":"one"}': {
            ".": {},
            "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
            "f:image": {},
            "f:name": {},
            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
            "f:resources": {"f:limits": {"f:cpu": {}}},
        }
    }
    side = {"name": "side", "image": "example.com/side:1"}
    extra = {"name": "one", "env": [{"name": "B", "value": "2"}]}
    both = await wire.apply(DEPLOYMENTS, "d", deployment(**containers(side, extra)), "guest")
    assert list(template(both)) == ["side", "one"]
    assert [each["name"] for each in template(both)["one"]["env"]] == ["A", "B"]
    refused = await wire.apply(
        DEPLOYMENTS, "d", deployment(replicas=3, **containers({"name": "one", "image": "example.com/other:1"})), "guest"
    )
    assert sorted(refused.causes) == [
        (CONFLICT, ".spec.replicas"),
        (CONFLICT, '.spec.template.spec.containers[name="one"].image'),
    ]
    assert refused.message.startswith('Apply failed with 2 conflicts: conflicts with "base":\n- .spec.replicas\n')
    # The owner of an element lets go of a part of it, the guest of all that it has.
    less = await wire.apply(DEPLOYMENTS, "d", whole({key: one[key] for key in ("name", "image")}), "base")
    assert template(less)["one"]["env"] == [{"name": "B", "value": "2"}]
    assert "limits" not in template(less)["one"]["resources"]
    alone = await wire.apply(DEPLOYMENTS, "d", deployment(), "guest")
    assert list(template(alone)) == ["one"]
    assert "env" not in template(alone)["one"]


async def test_status_and_scale_are_owned_apart(wire: Wire) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    await wire.apply("pods", "p", {**pod, "status": {"message": "mine"}}, "user")
    reported = await wire.patch("pods", "p/status", {"status": {"message": "m"}}, PatchType.MERGE, fieldManager="node")
    assert reported.managers()["node", "Update", "status"] == {"f:status": {"f:message": {}}}
    assert "f:status" not in reported.managers()["user", "Apply", ""]
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "n"}}
    refused = await wire.apply("pods", "p/status", status, "applier")
    said = 'Apply failed with 1 conflict: conflict with "node" with subresource "status" using v1: .status.message'
    assert refused.message == said
    forced = await wire.apply("pods", "p/status", {**status, "spec": {"hostname": "x"}}, "applier", force="true")
    assert forced.body["status"]["message"] == "n"
    assert "hostname" not in forced.body["spec"]
    assert forced.managers()["applier", "Apply", "status"] == {"f:status": {"f:message": {}}}
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    made = await wire.apply(POD_GROUPS, "g", {**group, "spec": {"minMember": 2, "queue": "q"}}, "user")
    assert made.managers() == {("user", "Apply", ""): {"f:spec": {"f:minMember": {}, "f:queue": {}}}}
    refused = await wire.apply(POD_GROUPS, "g", {**group, "spec": {"minMember": 3}}, "other")
    assert refused.causes == [(CONFLICT, ".spec.minMember")]
    less = await wire.apply(POD_GROUPS, "g", {**group, "spec": {"queue": "q"}}, "user")
    assert less.body["spec"] == {"queue": "q"}


async def test_what_cant_be_applied_is_refused(wire: Wire) -> None:
    await wire.apply("configmaps", "c", config_map("c", {"a": "1"}), "me")
    unnamed = await wire.patch("configmaps", "c", config_map("c"), PatchType.APPLY)
    assert (unnamed.status, unnamed.causes) == (422, [("FieldValueRequired", "fieldManager")])
    untyped = await wire.apply("configmaps", "c", {"metadata": {"name": "c"}}, "me")
    assert (untyped.status, untyped.message) == (400, "invalid object type: /, Kind=")
    managed = await wire.apply("configmaps", "c", config_map("c", managedFields=[{"manager": "x"}]), "me")
    assert (managed.status, managed.message) == (400, "metadata.managedFields must be nil")
    assert (await wire.apply("configmaps", "c", config_map("other"), "me")).status == 400
    stale = await wire.apply("configmaps", "c", config_map("c", {"a": "2"}, resourceVersion="1"), "me")
    assert (stale.status, stale.reason) == (409, "Conflict")
    unknown = await wire.apply("configmaps", "c", {**config_map("c"), "colour": "red"}, "me")
    assert unknown.status >= 400
    assert ".colour: field not declared in schema" in unknown.message
    nobody = await wire.apply("configmaps", "new", config_map("new", uid="1"), "me")
    assert (nobody.status, nobody.reason) == (409, "Conflict")
    assert "no existing object was found" in nobody.message
