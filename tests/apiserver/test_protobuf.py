"""Bodies in Kubernetes' protobuf: what typed Go clients send is read as the JSON that they would have sent."""

from __future__ import annotations

import base64
import random
import struct
from contextlib import suppress
from typing import Any

import pytest

from bosket.apiserver.request.body import decode_body
from bosket.apiserver.request.protobuf import MEDIA_TYPE, decode_protobuf
from bosket.apiserver.status import StatusError
from tests.apiserver.world import CONFIG_MAPS, DEFINITIONS, PODS, WIDGETS, World, definition


def varint(number: int) -> bytes:
    number %= 1 << 64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def put(number: int, value: bytes | str | int | float) -> bytes:
    """One field on the wire."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def entry(key: str, value: bytes | str) -> bytes:
    """One entry of a map."""
    return put(1, key) + put(2, value)


def framed(api_version: str, kind: str, *fields: bytes) -> bytes:
    return b"k8s\0" + put(1, put(1, api_version) + put(2, kind)) + put(2, b"".join(fields))


def read(api_version: str, kind: str, *fields: bytes) -> dict[str, Any]:
    found = decode_protobuf(framed(api_version, kind, *fields), 100)
    assert (found.pop("apiVersion"), found.pop("kind")) == (api_version, kind)
    return found


def refusal(body: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        decode_protobuf(body, 100)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


META = put(1, put(1, "a") + put(2, "") + put(7, 0) + put(8, b"") + put(11, entry("app", "web")))
CONTAINER = put(1, "main") + put(2, "busybox:1")


def pod_body(*more: bytes, meta: bytes = META) -> bytes:
    return framed("v1", "Pod", meta, put(2, put(2, CONTAINER) + b"".join(more)))


# what is read


def test_empty_values_are_left_out_where_json_leaves_them_out() -> None:
    """Go writes all fields of a message; in JSON an empty name or an empty time is not there."""
    assert read("v1", "ConfigMap", META) == {"metadata": {"name": "a", "labels": {"app": "web"}}}


def test_a_pointer_to_an_empty_value_is_a_value() -> None:
    spec = put(1, 0) + put(2, put(1, entry("app", "web")))
    found = read("apps/v1", "Deployment", put(2, spec))
    assert found["spec"] == {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}}
    volume = put(1, "scratch") + put(2, put(2, b""))
    assert read("v1", "Pod", put(2, put(1, volume)))["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {}}]


def test_times_have_their_forms() -> None:
    seconds = put(1, 1_700_000_000) + put(2, 123_456_789)
    lease = put(1, "me") + put(2, 15) + put(3, seconds) + put(4, seconds)
    assert read("coordination.k8s.io/v1", "Lease", put(2, lease))["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2023-11-14T22:13:20.123456Z",
        "renewTime": "2023-11-14T22:13:20.123456Z",
    }
    event = read("v1", "Event", put(6, put(1, 1_700_000_000)))
    assert event["firstTimestamp"] == "2023-11-14T22:13:20Z"
    before = put(1, -62135596800)  # Go's zero time
    assert "firstTimestamp" not in read("v1", "Event", put(6, before))


def test_quantities_and_integers_or_strings_have_their_forms() -> None:
    quota = put(1, entry("cpu", put(1, "2")) + b"") + put(1, entry("pods", put(1, "")))
    assert read("v1", "ResourceQuota", put(2, quota))["spec"] == {"hard": {"cpu": "2", "pods": "0"}}
    for written, expected in ((put(2, 3), 3), (put(1, 1) + put(3, "50%"), "50%"), (put(2, -1), -1)):
        budget = read("policy/v1", "PodDisruptionBudget", put(2, put(1, written)))
        assert budget["spec"] == {"minAvailable": expected}


def test_bytes_are_base64_and_json_within_is_json() -> None:
    secret = read("v1", "Secret", put(2, entry("k", b"\xff\x00")))
    assert secret["data"] == {"k": base64.b64encode(b"\xff\x00").decode()}
    revision = read("apps/v1", "ControllerRevision", put(2, put(1, '{"spec":{"a":[1,2.5]}}')), put(3, 7))
    assert revision == {"data": {"spec": {"a": [1, 2.5]}}, "revision": 7}
    managed = put(17, put(1, "kubectl") + put(7, put(1, '{"f:data":{}}')))
    assert read("v1", "ConfigMap", put(1, managed))["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {}}


def test_fields_that_stand_among_their_parents_do() -> None:
    env = put(1, "E") + put(3, put(3, put(1, put(1, "config")) + put(2, "key")))
    found = read("v1", "Pod", put(2, put(2, CONTAINER + put(7, env))))
    reference = {"name": "config", "key": "key"}
    assert found["spec"]["containers"][0]["env"] == [{"name": "E", "valueFrom": {"configMapKeyRef": reference}}]


def test_schemas_of_custom_resources_are_read_in_all_their_forms() -> None:
    text, whole = put(5, "string"), put(5, "integer")
    properties = b"".join(
        (
            put(29, entry("list", put(5, "array") + put(24, put(1, text)))),
            put(29, entry("pair", put(24, put(2, text) + put(2, whole)))),
            put(29, entry("open", put(30, put(1, 1)))),
            put(29, entry("map", put(30, put(2, whole)))),
            put(29, entry("number", put(9, 1.5) + put(8, put(1, "1")))),
            put(32, entry("x", put(2, "y"))),
        )
    )
    versions = put(1, "v1") + put(2, 1) + put(3, 1) + put(4, put(1, put(5, "object") + properties))
    found = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", put(2, put(7, versions)))
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"] == {
        "list": {"type": "array", "items": {"type": "string"}},
        "pair": {"items": [{"type": "string"}, {"type": "integer"}]},
        "open": {"additionalProperties": True},
        "map": {"additionalProperties": {"type": "integer"}},
        "number": {"maximum": 1.5, "default": 1},
    }
    assert schema["dependencies"] == {"x": ["y"]}


def test_lists_of_strings_in_a_map_are_lists() -> None:
    spec = put(3, "u") + put(5, entry("scopes", put(1, "a") + put(1, "b")))
    found = read("authorization.k8s.io/v1", "SubjectAccessReview", put(2, spec))
    assert found["spec"] == {"user": "u", "extra": {"scopes": ["a", "b"]}}


def test_packed_numbers_are_numbers() -> None:
    assert read("v1", "Pod", put(2, put(14, put(4, varint(5) + varint(6)))))["spec"] == {
        "securityContext": {"supplementalGroups": [5, 6]}
    }


def test_options_belong_to_every_api_version() -> None:
    found = decode_protobuf(framed("apps/v1", "DeleteOptions", put(1, 0), put(4, "Orphan")), 100)
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Orphan",
    }


def test_fields_of_a_newer_release_are_passed_over() -> None:
    assert read("v1", "ConfigMap", put(900, "new"), put(901, 5), put(902, 1.0), META)["metadata"]["name"] == "a"


# what is refused


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "does not begin with 6b 38 73 00"),
        (b'{"kind":"Pod"}', "does not begin with 6b 38 73 00"),
        (b"k8s\0", 'no kind "" is registered for version ""'),
        (framed("v1", "Nonsense"), 'no kind "Nonsense" is registered for version "v1"'),
        (framed("v1", "Pod", put(1, 5)), "Pod.metadata: should not be a number"),
        (framed("v1", "Pod", put(2, put(25, "high"))), "PodSpec.priority: should be a number"),
        (framed("v1", "Pod", put(1, put(1, b"\xff"))), "ObjectMeta.name: a string is not valid UTF-8"),
        (framed("v1", "ConfigMap", b"\x0a\x7f"), "field 1 should have 127 bytes, and 0 are left"),
        (framed("v1", "ConfigMap", b"\x0b"), "wire type 3"),
        (framed("v1", "ConfigMap", b"\x02\x01a"), "the number 0"),
        (framed("v1", "ConfigMap", b"\xff" * 11), "more than 64 bits"),
        (framed("v1", "ConfigMap", b"\x80"), "a number ends too early"),
        (framed("v1", "Event", put(6, put(1, 1 << 60))), "can't be written"),
        (framed("apps/v1", "ControllerRevision", put(2, put(1, "{"))), "JSON within the message is not valid"),
        (framed("apps/v1", "ControllerRevision", put(2, put(1, "[" * 5000))), "JSON within the message is"),
        (b"k8s\0" + put(1, put(1, "v1") + put(2, "Pod")) + put(3, "gzip"), "compressed"),
        (b"k8s\0" + put(1, 7), "a number where it should have bytes"),
    ],
)
def test_what_is_no_object_is_refused_with_a_sentence(body: bytes, reason: str) -> None:
    assert reason in refusal(body)


def test_messages_nested_too_deeply_are_refused() -> None:
    schema = b""
    for _ in range(150):
        schema = put(28, schema)  # not: {not: {not: …}}
    versions = put(7, put(4, put(1, schema)))
    body = framed("apiextensions.k8s.io/v1", "CustomResourceDefinition", put(2, versions))
    assert "nested too deeply" in refusal(body)


def test_json_within_counts_towards_the_depth() -> None:
    body = framed("apps/v1", "ControllerRevision", put(2, put(1, "[" * 200 + "]" * 200)))
    with pytest.raises(StatusError, match="nested more than 100 levels deep"):
        decode_body(body, MEDIA_TYPE)


def test_any_bytes_at_all_are_read_or_refused() -> None:
    """Cut anywhere, or with any byte changed, a body is an object or a 400, and never anything else."""
    whole = pod_body(put(7, entry("zone", "a")), put(25, 5), put(34, put(1, CONTAINER)))
    chance = random.Random(1)
    bodies = [whole[:size] for size in range(len(whole))]
    for _ in range(2000):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(4, len(changed))] = chance.randrange(256)
        bodies.append(bytes(changed))
    for body in bodies:
        with suppress(StatusError):
            decode_protobuf(body, 100)


# through the server


async def test_the_server_reads_objects_options_and_questions(world: World) -> None:
    created = await world.ok("POST", PODS, pod_body(put(22, put(1, "k") + put(2, "Exists"))), MEDIA_TYPE)
    assert created["spec"]["containers"][0]["image"] == "busybox:1"
    assert created["metadata"]["labels"] == {"app": "web"}
    assert {"key": "k", "operator": "Exists"} in created["spec"]["tolerations"]

    binding = framed("v1", "Binding", put(1, put(1, "a")), put(2, put(1, "Node") + put(3, "n1")))
    await world.ok("POST", f"{PODS}/a/binding", binding, MEDIA_TYPE)
    assert (await world.ok("GET", f"{PODS}/a"))["spec"]["nodeName"] == "n1"
    options = framed("v1", "DeleteOptions", put(1, 0), put(2, put(1, "another-uid")))
    assert "another-uid" in (await world.refused(409, "DELETE", f"{PODS}/a", options, MEDIA_TYPE))["message"]
    gone = framed("policy/v1", "Eviction", put(1, put(1, "a")), put(2, put(1, 0)))
    await world.ok("POST", f"{PODS}/a/eviction", gone, MEDIA_TYPE)
    assert not await world.exists(f"{PODS}/a")


async def test_the_kind_must_be_the_paths(world: World) -> None:
    refused = await world.refused(400, "POST", CONFIG_MAPS, pod_body(), MEDIA_TYPE)
    assert "the kind in the data (Pod) does not match the expected kind (ConfigMap)" in refused["message"]


async def test_custom_resources_have_no_protobuf(world: World) -> None:
    await world.ok("POST", DEFINITIONS, definition())
    await world.refused(415, "POST", WIDGETS, framed("example.com/v1", "Widget", META), MEDIA_TYPE)
