"""What each verb sends, and what it makes of the answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import ConfigMap, Node, Pod
from bosket.api.object import ObjectMeta
from bosket.api.resource import Resource
from bosket.kube.client import PatchType
from bosket.kube.errors import Conflict, TooManyRequests
from tests.kube.scripted import Script, answer, client_of, failure, pod

WIDGET: Resource[dict[str, Any]] = Resource("x.dev", "v1", "Widget", "widgets", dict)


def body_of(script: Script) -> Any:
    return msgspec.json.decode(script.requests[-1].body)


def a_pod(**meta: Any) -> Pod:
    return msgspec.convert(pod("a", **meta), Pod)


async def test_get_asks_for_the_object_s_path_and_gives_a_struct_without_apiversion_and_kind() -> None:
    script = Script(answer(pod("a", 7)))
    found = await client_of(script).get(Pod, "a", "ns")
    assert (script.requests[0].method, script.requests[0].path) == ("GET", "/api/v1/namespaces/ns/pods/a")
    assert (found.metadata.resourceVersion, found.apiVersion, found.kind) == ("7", "", "")


async def test_a_cluster_scoped_kind_needs_no_namespace() -> None:
    script = Script(answer({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}))
    await client_of(script).get(Node, "n1")
    assert script.requests[0].path == "/api/v1/nodes/n1"


async def test_a_namespaced_kind_without_a_namespace_is_refused_before_anything_is_sent() -> None:
    script = Script()
    with pytest.raises(ValueError, match="Pod a needs a namespace"):
        await client_of(script).get(Pod, "a")
    assert not script.requests


@pytest.mark.parametrize("name", ["", "a/b", "..", "a%2fb"])
async def test_a_name_that_would_reach_something_else_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        await client_of(Script()).delete(Pod, name, "ns")


async def test_a_kind_without_struct_travels_as_dict_and_keeps_every_field() -> None:
    widget = {"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "odd": [1, None]}
    script = Script(answer(widget))
    assert await client_of(script).get(WIDGET, "w", "ns") == widget
    assert script.requests[0].path == "/apis/x.dev/v1/namespaces/ns/widgets/w"


async def test_create_writes_apiversion_and_kind_and_takes_the_namespace_from_the_object() -> None:
    script = Script(answer(pod("a", 3), 201))
    created = await client_of(script).create(a_pod())
    assert (script.requests[0].method, script.requests[0].path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert body_of(script)["apiVersion"] == "v1"
    assert body_of(script)["kind"] == "Pod"
    assert script.requests[0].headers["Content-Type"] == "application/json"
    assert created.metadata.resourceVersion == "3"


async def test_create_of_an_empty_object_is_still_an_object() -> None:
    script = Script(answer({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}, 201))
    await client_of(script).create(ConfigMap(), "ns")
    assert script.requests[0].body == b'{"apiVersion":"v1","kind":"ConfigMap"}'


async def test_create_with_dry_run_says_so() -> None:
    script = Script(answer(pod("a"), 201))
    await client_of(script).create(a_pod(), dry_run=True)
    assert script.requests[0].query == (("dryRun", "All"),)


async def test_a_dict_is_created_by_the_apiversion_and_kind_it_states() -> None:
    script = Script(answer(pod("a"), 201))
    created = await client_of(script).create(pod("a"))
    assert script.requests[0].path == "/api/v1/namespaces/ns/pods"
    assert isinstance(created, dict)


async def test_a_dict_of_an_unknown_kind_needs_its_resource() -> None:
    widget: dict[str, Any] = {"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    with pytest.raises(ValueError, match=r"x\.dev/v1.*Widget"):
        await client_of(Script()).create(widget, "ns")
    script = Script(answer(widget, 201))
    await client_of(script).create(widget, "ns", kind=WIDGET)
    assert script.requests[0].path == "/apis/x.dev/v1/namespaces/ns/widgets"


async def test_replace_puts_the_whole_object() -> None:
    script = Script(answer(pod("a")))
    await client_of(script).replace(a_pod(), subresource="status")
    assert (script.requests[0].method, script.requests[0].path) == ("PUT", "/api/v1/namespaces/ns/pods/a/status")


@pytest.mark.parametrize(
    ("type", "patch"), [(PatchType.MERGE, {"a": 1}), (PatchType.JSON, [{"op": "x", "path": "/a"}])]
)
async def test_patch_says_its_type_in_the_content_type(type: PatchType, patch: Any) -> None:
    script = Script(answer(pod("a")))
    await client_of(script).patch(Pod, "a", patch, namespace="ns", type=type)
    assert script.requests[0].method == "PATCH"
    assert script.requests[0].headers["Content-Type"] == type.value
    assert body_of(script) == patch


async def test_server_side_apply_states_what_it_applies_and_who_applies_it() -> None:
    script = Script(answer(pod("a")))
    patch = Pod(metadata=ObjectMeta(labels={"x": "y"}))
    await client_of(script).patch(Pod, "a", patch, namespace="ns", type=PatchType.APPLY, field_manager="me", force=True)
    assert script.requests[0].query == (("fieldManager", "me"), ("force", "true"))
    meta = {"name": "a", "namespace": "ns", "labels": {"x": "y"}}
    assert body_of(script) == {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


async def test_delete_sends_options_only_where_there_are_some() -> None:
    script = Script(answer({"kind": "Status", "status": "Success"}), answer(pod("a")))
    client = client_of(script)
    await client.delete(Pod, "a", "ns")
    assert script.requests[0].body == b""
    await client.delete(Pod, "a", "ns", grace_seconds=0, propagation="Foreground", uid="u", resource_version="5")
    assert body_of(script) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


async def test_delete_collection_selects_by_labels_and_fields() -> None:
    script = Script(answer({"kind": "PodList", "items": []}))
    await client_of(script).delete_collection(Pod, "ns", labels="a=b", fields="spec.nodeName=n")
    assert (script.requests[0].method, script.requests[0].path) == ("DELETE", "/api/v1/namespaces/ns/pods")
    assert script.requests[0].query == (("labelSelector", "a=b"), ("fieldSelector", "spec.nodeName=n"))


async def test_bind_names_the_pod_s_uid_and_the_node() -> None:
    script = Script(answer({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201))
    await client_of(script).bind(a_pod(), "n1")
    assert (script.requests[0].method, script.requests[0].path) == ("POST", "/api/v1/namespaces/ns/pods/a/binding")
    assert body_of(script)["metadata"] == {"name": "a", "namespace": "ns", "uid": "uid-a"}
    assert body_of(script)["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


async def test_a_bind_answered_with_a_failure_status_is_an_error_even_with_http_201() -> None:
    refused = failure(409, "Conflict", "pod a is already assigned to node n2")
    script = Script(msgspec.structs.replace(refused, status=201))
    with pytest.raises(Conflict, match="already assigned to node n2"):
        await client_of(script).bind(a_pod(), "n1")


async def test_evict_means_this_very_pod() -> None:
    script = Script(answer({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201))
    await client_of(script).evict(a_pod(), grace_seconds=3)
    assert script.requests[0].path == "/api/v1/namespaces/ns/pods/a/eviction"
    assert body_of(script)["deleteOptions"] == {"preconditions": {"uid": "uid-a"}, "gracePeriodSeconds": 3}


async def test_an_eviction_that_a_disruption_budget_forbids_is_not_repeated() -> None:
    status = {"kind": "Status", "status": "Failure", "code": 429, "reason": "TooManyRequests", "message": "budget"}
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2 healthy pods"}]}
    script = Script(answer({**status, "details": details}, 429))
    with pytest.raises(TooManyRequests, match="budget"):
        await client_of(script).evict(a_pod())


async def test_raw_sends_anything_and_raises_on_failure() -> None:
    script = Script(answer(b"ok"), failure(404, "NotFound"))
    client = client_of(script)
    assert (await client.raw("GET", "/healthz", query=(("verbose", "1"),))).body == b"ok"
    with pytest.raises(Exception, match="404 NotFound"):
        await client.raw("POST", "/x", body={"a": 1})
    assert script.requests[1].body == b'{"a":1}'
