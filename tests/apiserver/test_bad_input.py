"""Requests that make no sense get a Status that says what is wrong with them; everything else goes on."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.apiserver.world import (
    CONFIG_MAPS,
    JSON,
    JSON_PATCH,
    MERGE,
    PODS,
    STRATEGIC,
    World,
    config_map,
    definition,
    pod,
    widget,
)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"kind": "Pod",', "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "must be a JSON object of kind Pod, not a list"),
        (b'"pod"', "not a string"),
        (b'{"kind": "Node"}', "the kind in the data (Node) does not match the expected kind (Pod)"),
        (b'{"apiVersion": "v2"}', "the API version in the data (v2) does not match the expected API version (v1)"),
        (b'{"metadata": 5}', "metadata must be an object, not a number"),
        (b'{"metadata": {"name": 5}}', "metadata.name must be a string, not a number"),
        (b'{"metadata": {"labels": {"a": 1}}}', "metadata.labels.a must be a string, not a number"),
        (b'{"metadata": {"finalizers": "x"}}', "metadata.finalizers must be a list of strings"),
        (b"[" * 5000 + b"]" * 5000, "nested"),
    ],
)
async def test_a_body_that_is_no_pod_is_a_bad_request(world: World, body: bytes, words: str) -> None:
    status = await world.refused(400, "POST", PODS, body)
    assert words in status["message"]


async def test_a_value_of_a_wrong_type_is_named_with_its_field_and_the_right_type(world: World) -> None:
    status = await world.refused(400, "POST", PODS, pod("a", terminationGracePeriodSeconds="soon"))
    assert status["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: '
        'spec.terminationGracePeriodSeconds: expected `int | null`, got a string: "soon"'
    )


async def test_a_plain_value_that_is_missing_is_empty_and_judged_by_the_rules(world: World) -> None:
    status = await world.refused(422, "POST", PODS, pod("a", containers=[{"image": "i"}, {"name": "x"}]))
    assert [cause["field"] for cause in status["details"]["causes"]] == [
        "spec.containers[0].name",
        "spec.containers[1].image",
    ]


async def test_nulls_mean_not_set(world: World) -> None:
    created = await world.ok("POST", PODS, pod("a", volumes=None, nodeName=None, metadata={"labels": None}))
    assert "volumes" not in created["spec"]
    assert "labels" not in created["metadata"]


async def test_fields_that_a_kind_does_not_have_are_dropped_and_told_of_or_refused(world: World) -> None:
    manifest = pod("a", colour="red")
    manifest["spec"]["containers"][0]["size"] = 1
    assert "colour" not in (await world.ok("POST", PODS, manifest, fieldValidation="Ignore"))["spec"]
    manifest["metadata"]["name"] = "b"
    warned = await world.call("POST", PODS, manifest)
    assert warned.headers["warning"].count("unknown field") == 2
    manifest["metadata"]["name"] = "c"
    status = await world.refused(400, "POST", PODS, manifest, fieldValidation="Strict")
    assert 'unknown field "spec.containers[0].size"' in status["message"]
    assert 'unknown field "spec.colour"' in status["message"]


async def test_yaml_is_read(world: World) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata: {when: '2025-01-01'}\n"
    assert (await world.ok("POST", CONFIG_MAPS, body, "application/yaml"))["data"] == {"when": "2025-01-01"}
    await world.refused(400, "POST", CONFIG_MAPS, b"a: [", "application/yaml")
    await world.refused(400, "POST", CONFIG_MAPS, b"? {a: b}\n: c", "application/yaml")


async def test_yaml_may_repeat_itself_by_aliases(world: World) -> None:
    body = b"metadata: {name: y, labels: &l {a: b}, annotations: *l}\ndata: {<<: *l, c: &d d, e: *d}\n"
    created = await world.ok("POST", CONFIG_MAPS, body, "application/yaml")
    assert created["metadata"]["annotations"] == {"a": "b"}
    assert created["data"] == {"a": "b", "c": "d", "e": "d"}


def _billion_laughs(item: str) -> bytes:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} {item.replace('N', str(n - 1))}" for n in range(1, 60))]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (_billion_laughs("[*aN, *aN]"), "its aliases stand for more than"),
        (_billion_laughs("{k: *aN, l: *aN}"), "its aliases stand for more than"),
        (b"s: &s " + b"x" * 1000 + b"\nl: [" + b"*s, " * 2000 + b"]", "its aliases stand for more than"),
        (b"a: &a [*a]", "*a is within what it stands for"),
        (b"a: *b", "undefined alias"),
        (b"[" * 200_000, "nested more than 100 levels deep"),
        (b"- " * 200_000 + b"x", "nested more than 100 levels deep"),
        (b"".join(b" " * n + b"a:\n" for n in range(150)), "nested more than 100 levels deep"),
        (b"a0: &a0 x\n" + b"".join(b"a%d: &a%d\n- *a%d\n" % (n, n, n - 1) for n in range(1, 150)), "nested more than"),
    ],
)
async def test_yaml_that_means_far_more_than_it_says_is_refused(world: World, body: bytes, words: str) -> None:
    status = await world.refused(400, "POST", CONFIG_MAPS, body, "application/yaml")
    assert words in status["message"]


async def test_yaml_of_very_many_parts_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bosket.apiserver.request.body.MAX_EVENTS", 100)
    body = b"kind: ConfigMap\ndata:\n" + b"".join(b"  k%d: v\n" % number for number in range(60))
    status = await world.refused(400, "POST", CONFIG_MAPS, body, "application/yaml")
    assert "it has more than 100 parts; write it as JSON" in status["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/cbor"])
async def test_other_formats_are_refused_with_those_that_are_read(world: World, content_type: str) -> None:
    status = await world.refused(415, "POST", CONFIG_MAPS, b"k8s\x00", content_type)
    assert JSON in status["message"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/unicorns", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/none.io/v1/things", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/pods/a", 404),
        ("GET", f"{PODS}/a/unicorn", 404),
        ("POST", f"{PODS}/a", 405),
        ("PUT", PODS, 405),
        ("BREW", PODS, 405),
        ("POST", "/version", 405),
        ("POST", "/api/v1/pods", 405),
    ],
)
async def test_paths_and_methods_that_are_not_there(world: World, method: str, path: str, code: int) -> None:
    await world.refused(code, method, path, pod() if method == "POST" else None)


async def test_a_mistake_of_ours_is_a_500_without_details_logged_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_call: Any) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(world.server.reader, "get", fail)
    with caplog.at_level(logging.ERROR):
        status = await world.refused(500, "GET", f"{PODS}/a")
    assert "secret" not in status["message"]
    assert len(caplog.records) == 1
    assert (await world.call("GET", PODS)).status == 200


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "containers",
                    "name",
                    "labels",
                    "resources",
                    "limits",
                    "cpu",
                    "$patch",
                    "x",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_CONTAINER = {
    "name": "c",
    "image": "i",
    "command": ["x"],
    "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"containerPort": 80}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "livenessProbe": {"httpGet": {"port": 80}},
    "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
}
_POD = {
    "containers": [_CONTAINER],
    "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "v", "configMap": {"name": "c"}},
        {"name": "w", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ],
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
    "nodeSelector": {"a": "b"},
    "schedulingGates": [{"name": "g"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z"}],
    "restartPolicy": "Never",
}
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {**_POD, "restartPolicy": "Always"}}
_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
_METADATA = {
    "name": "x",
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "finalizers": ["x.io/f"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
}
_RULED = {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 0", "message": "m"}]}
#: Where, and what would be accepted there but for one mutation.
TARGETS: list[tuple[str, dict[str, Any]]] = [
    (PODS, {"spec": _POD}),
    (CONFIG_MAPS, {"data": {"a": "b"}, "binaryData": {"c": "YQ=="}, "immutable": True}),
    ("/api/v1/nodes", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": 1}}}),
    ("/api/v1/namespaces/default/services", {"spec": {"type": "NodePort", "ports": [{"port": 80, "name": "p"}]}}),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        {"spec": {"selector": _SELECTOR, "template": _TEMPLATE, "strategy": {"rollingUpdate": {"maxSurge": 1}}}},
    ),
    (
        "/apis/apps/v1/namespaces/default/statefulsets",
        {"spec": {"selector": _SELECTOR, "template": _TEMPLATE, "volumeClaimTemplates": [{"metadata": {"name": "v"}}]}},
    ),
    ("/apis/apps/v1/namespaces/default/daemonsets", {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}}),
    ("/apis/batch/v1/namespaces/default/jobs", {"spec": {"template": {"spec": _POD}, "completions": 1}}),
    (
        "/apis/batch/v1/namespaces/default/cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": _POD}}}}},
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"spec": {"selector": _SELECTOR, "minAvailable": "50%"}},
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": definition(
                {"type": "object", "properties": {"x": _RULED, "l": {"type": "array", "items": {"type": "string"}}}},
                additionalPrinterColumns=[{"name": "X", "type": "integer", "jsonPath": ".spec.x"}],
                subresources={
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x"},
                },
                selectableFields=[{"jsonPath": ".spec.x"}],
            )["spec"],
        },
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 5, "globalDefault": True}),
    ("/api/v1/namespaces/default/secrets", {"stringData": {"a": "b"}, "data": {"c": "YQ=="}}),
    (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("/api/v1/persistentvolumes", {"spec": {"capacity": {"storage": "1Gi"}, "claimRef": {"name": "c"}}}),
    ("/api/v1/namespaces/default/events", {"involvedObject": {"namespace": "default", "name": "p"}, "count": 1}),
    ("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", {"spec": {"maxReplicas": 3}}),
    ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}}}),
    ("/api/v1/namespaces", {"spec": {"finalizers": ["kubernetes"]}}),
]
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [at] if at else []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        found += places(child, (*at, key))
    return found


def mutated(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at one place; `...` removes it."""
    copy = json.loads(json.dumps(document))
    parent = copy
    for key in place[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return copy


_SETTINGS = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@_SETTINGS
@given(st.data())
async def test_no_change_to_a_good_manifest_makes_the_server_stumble(data: st.DataObject) -> None:
    world = World()
    path, body = data.draw(st.sampled_from(TARGETS))
    good = body if path.endswith("reviews") else {"metadata": _METADATA, **body}  # a question has no metadata
    bad = mutated(good, data.draw(st.sampled_from(places(good))), data.draw(JSON_VALUES | st.just(...)))
    created = await world.call("POST", path, good)
    assert created.status == 201, created.body
    if "resourceVersion" in created.body["metadata"]:
        name = created.body["metadata"]["name"]
        for method, content_type in (("PUT", JSON), ("PATCH", MERGE), ("PATCH", STRATEGIC)):
            answer = await world.call(method, f"{path}/{name}", bad, content_type)
            assert answer.status < 500, (path, bad, answer.body)
        assert (await world.call("GET", path, accept=TABLE)).status == 200
        await world.call("DELETE", f"{path}/{name}")
    assert (await world.call("POST", path, bad, fieldValidation="Warn")).status < 500
    if "customresourcedefinitions" in path:
        for spec in ({}, {"x": 1}, {"x": data.draw(JSON_VALUES)}):
            answer = await world.call("POST", "/apis/example.com/v1/namespaces/default/widgets", widget("w", spec))
            assert answer.status < 500, (bad, spec, answer.body)


@_SETTINGS
@given(st.sampled_from([JSON, MERGE, STRATEGIC, JSON_PATCH]), JSON_VALUES, JSON_VALUES)
async def test_no_patch_makes_the_server_stumble(content_type: str, value: Any, inner: Any) -> None:
    world = World()
    await world.ok("POST", PODS, pod("a"))
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    for body in (
        value,
        {"spec": value, "metadata": inner},
        {"spec": {"containers": inner}},
        [{"op": "replace", "path": "/spec", "value": value}],
    ):
        for path in (f"{PODS}/a", f"{PODS}/a/status", f"{CONFIG_MAPS}/a"):
            answer = await world.call("PATCH", path, body, content_type)
            assert answer.status < 500, (path, body, answer.body)


@_SETTINGS
@given(
    st.dictionaries(
        st.sampled_from(
            ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "dryRun"]
        ),
        st.text(max_size=12) | st.sampled_from(["1", "0", "Exact", "NotOlderThan", "a=b", "metadata.name=a", "All"]),
        max_size=4,
    )
)
async def test_no_parameter_makes_the_server_stumble(query: dict[str, str]) -> None:
    world = World()
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    for method in ("GET", "DELETE"):
        answer = await world.call(method, CONFIG_MAPS, **query)
        assert answer.status < 500 or answer.status == 504, (query, answer.body)


@_SETTINGS
@given(st.binary(max_size=60), st.sampled_from([JSON, "application/yaml", "application/apply-patch+yaml"]))
async def test_no_bytes_make_the_server_stumble(body: bytes, content_type: str) -> None:
    world = World()
    answer = await world.call("POST", CONFIG_MAPS, body, content_type)
    assert answer.status < 500
    answer = await world.call("PATCH", f"{CONFIG_MAPS}/a", body, content_type, fieldManager="m")
    assert answer.status < 500
    assert json.dumps(answer.body)
