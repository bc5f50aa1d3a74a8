"""The CustomResourceDefinitions say what the Structs say, in the form that kube-apiserver wants."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

from bosket.api import grove, kai
from bosket.api.crd import crd_manifest, crd_manifests
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.resource import AnyResource, Resource

KINDS: tuple[AnyResource, ...] = (*kai.RESOURCES, *grove.RESOURCES)
by_kind = pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.kind)

Json = dict[str, Any]

FORBIDDEN = {
    "$ref", "$schema", "$id", "definitions", "dependencies", "patternProperties", "additionalItems", "id",
    "deprecated", "discriminator", "readOnly", "writeOnly", "xml", "uniqueItems",
}  # fmt: skip


@cache
def version_of(resource: AnyResource) -> Json:
    version: Json
    (version,) = crd_manifest(resource)["spec"]["versions"]
    return version


def root_of(resource: AnyResource) -> Json:
    schema: Json = version_of(resource)["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """A schema and all schemas inside it, with their paths."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def test_every_kind_of_kai_and_grove_has_a_definition() -> None:
    assert {crd["metadata"]["name"] for crd in crd_manifests()} == {
        "queues.scheduling.run.ai",
        "podgroups.scheduling.run.ai",
        "bindrequests.scheduling.run.ai",
        "topologies.kai.scheduler",
        "schedulingshards.kai.scheduler",
        "configs.kai.scheduler",
        "podcliquesets.grove.io",
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "clustertopologybindings.grove.io",
        "podgangs.scheduler.grove.io",
    }


@pytest.mark.parametrize(
    ("kind", "version", "scope", "short_names", "subresources"),
    [
        ("Queue", "v2", "Cluster", [], {"status"}),
        ("PodGroup", "v2alpha2", "Namespaced", ["pg"], {"status"}),
        ("BindRequest", "v1alpha2", "Namespaced", [], {"status"}),
        ("Topology", "v1alpha1", "Cluster", [], set()),
        ("SchedulingShard", "v1", "Cluster", [], {"status"}),
        ("Config", "v1", "Cluster", [], {"status"}),
        ("PodCliqueSet", "v1alpha1", "Namespaced", ["pcs"], {"status", "scale"}),
        ("PodClique", "v1alpha1", "Namespaced", ["pclq"], {"status", "scale"}),
        ("PodCliqueScalingGroup", "v1alpha1", "Namespaced", ["pcsg"], {"status", "scale"}),
        ("ClusterTopologyBinding", "v1alpha1", "Cluster", ["ct"], {"status"}),
        ("PodGang", "v1alpha1", "Namespaced", [], {"status"}),
    ],
)
def test_a_definition_has_the_names_scope_and_subresources_of_the_original(
    kind: str, version: str, scope: str, short_names: list[str], subresources: set[str]
) -> None:
    spec = next(crd["spec"] for crd in crd_manifests() if crd["spec"]["names"]["kind"] == kind)
    assert spec["scope"] == scope
    assert spec["names"]["listKind"] == f"{kind}List"
    assert spec["names"]["singular"] == kind.lower()
    assert spec["names"].get("shortNames", []) == short_names
    assert [served["name"] for served in spec["versions"]] == [version]
    assert set(spec["versions"][0].get("subresources", {})) == subresources


# --- structural schemas


@by_kind
def test_every_value_has_a_type(resource: AnyResource) -> None:
    for path, schema in nodes(root_of(resource)):
        assert (
            schema.get("type")
            or schema.get("x-kubernetes-int-or-string")
            or schema.get("x-kubernetes-preserve-unknown-fields")
        ), path


@by_kind
def test_no_schema_uses_a_keyword_that_kubernetes_forbids(resource: AnyResource) -> None:
    for path, schema in nodes(root_of(resource)):
        assert not FORBIDDEN & set(schema), path
        assert not {"properties", "additionalProperties"} <= set(schema), path
        if "anyOf" in schema:
            assert schema["x-kubernetes-int-or-string"], path


@by_kind
def test_required_fields_and_list_keys_exist(resource: AnyResource) -> None:
    for path, schema in nodes(root_of(resource)):
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), path
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            item = schema["items"]
            assert key in item.get("required", ()) or "default" in item["properties"][key], f"{path}.{key}"


@by_kind
def test_metadata_is_left_to_the_server(resource: AnyResource) -> None:
    assert root_of(resource)["properties"]["metadata"] == {"type": "object"}


@by_kind
def test_a_default_is_a_value_that_its_field_accepts(resource: AnyResource) -> None:
    python = {"string": str, "integer": int, "number": float, "boolean": bool}
    for path, schema in nodes(root_of(resource)):
        if "default" in schema:
            assert isinstance(schema["default"], python[schema["type"]]), path
            assert schema["default"] in schema.get("enum", [schema["default"]]), path


@by_kind
def test_patterns_are_regular_expressions_that_go_can_read(resource: AnyResource) -> None:
    for path, schema in nodes(root_of(resource)):
        if pattern := schema.get("pattern"):
            re.compile(pattern)
            assert "(?" not in pattern, f"{path}: RE2 has no look-around"


@by_kind
def test_lists_that_a_rule_compares_with_themselves_are_bounded(resource: AnyResource) -> None:
    """A rule's cost is estimated for the longest list that the schema lets through."""
    for path, schema in nodes(root_of(resource)):
        for rule in schema.get("x-kubernetes-validations", ()):
            if schema.get("type") == "array":
                assert "maxItems" in schema, f"{path}: {rule['rule']}"


@by_kind
def test_a_definition_is_small_enough_to_be_stored(resource: AnyResource) -> None:
    assert len(msgspec.json.encode(crd_manifest(resource))) < 500_000


# --- the Structs and nothing else


def bare(hint: Any) -> Any:
    """A type without its annotations and without None."""
    if typing.get_origin(hint) is typing.Annotated:
        return bare(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return bare(members[0]) if len(members) == 1 else hint
    return hint


def assert_same(hint: Any, schema: Json, path: str) -> None:
    """The schema describes what the type holds, field by field, in both directions."""
    hint = bare(hint)
    origin = typing.get_origin(hint)
    if origin is tuple:
        assert schema["type"] == "array", path
        assert_same(typing.get_args(hint)[0], schema["items"], f"{path}[]")
    elif origin is dict:
        assert schema["type"] == "object", path
        if typing.get_args(hint)[1] is not Any:
            assert_same(typing.get_args(hint)[1], schema["additionalProperties"], f"{path}{{}}")
    elif hint is ObjectMeta:
        assert schema["type"] == "object", path
    elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        assert schema["type"] == "object", path
        assert set(schema["properties"]) == set(hint.__struct_encode_fields__), path
        hints = typing.get_type_hints(hint, include_extras=True)
        for name, wire_name in zip(hint.__struct_fields__, hint.__struct_encode_fields__, strict=True):
            assert_same(hints[name], schema["properties"][wire_name], f"{path}.{wire_name}")
    elif origin is typing.Literal:
        assert set(schema["enum"]) == set(typing.get_args(hint)) - {""}, path
    elif hint is Any:
        assert schema["x-kubernetes-preserve-unknown-fields"], path
    elif hint in (str, int, float, bool):
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        assert schema["type"] == names[hint], path
    else:
        assert schema["x-kubernetes-int-or-string"], f"{path}: {hint}"


@by_kind
def test_a_schema_has_the_fields_of_its_struct_and_no_others(resource: AnyResource) -> None:
    assert_same(resource.struct, root_of(resource), resource.kind)


@by_kind
def test_a_field_is_required_when_its_struct_requires_it_and_the_server_has_no_default(resource: AnyResource) -> None:
    for field in msgspec.structs.fields(resource.struct):
        assert (field.encode_name in root_of(resource).get("required", ())) == field.required


@by_kind
def test_a_default_of_the_server_is_what_absence_means_to_the_struct(resource: AnyResource) -> None:
    """A value equal to the Struct's default isn't sent; had the server another default, it would come back changed."""

    def check(struct: type[msgspec.Struct], schema: Json, path: str) -> None:
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            sub = schema["properties"][field.encode_name]
            if "default" in sub and not field.required:
                assert field.default == sub["default"], f"{path}.{field.name}"
            inner = bare(hints[field.name])
            if typing.get_origin(inner) is tuple:
                inner, sub = bare(typing.get_args(inner)[0]), sub["items"]
            if isinstance(inner, type) and inner.__module__.startswith(("bosket.api.kai", "bosket.api.grove")):
                check(inner, sub, f"{path}.{field.name}")

    check(resource.struct, root_of(resource), resource.kind)


# --- what people see


@by_kind
def test_kinds_and_their_specs_are_described(resource: AnyResource) -> None:
    schema = root_of(resource)
    assert schema["description"]
    assert schema["properties"]["spec"]["description"]


def test_the_string_under_a_field_describes_it() -> None:
    queue = root_of(kai.QUEUE)["properties"]["spec"]["properties"]
    assert queue["parentQueue"]["description"] == "Name of the parent queue; empty at the top of the tree."
    assert "fractions" in queue["resources"]["properties"]["gpu"]["description"]


def field_at(schema: Json, path: str) -> Json | None:
    """The schema that a JSONPath of a column leads to."""
    for name, subscript in re.findall(r"\.(\w+)(\[[^\]]*\])?", re.sub(r"\?\(@\.type==\"(\w+)\"\)", "0", path)):
        if schema.get("type") == "object" and "properties" not in schema:
            return schema
        if name not in schema["properties"]:
            return None
        schema = schema["properties"][name]
        if subscript:
            schema = schema["items"]
    return schema


@by_kind
def test_every_column_shows_a_field_that_exists(resource: AnyResource) -> None:
    columns = version_of(resource)["additionalPrinterColumns"]
    assert columns[-1]["jsonPath"] == ".metadata.creationTimestamp"
    for column in columns:
        assert field_at(root_of(resource), column["jsonPath"]) is not None, column["jsonPath"]
        assert column["type"] in {"string", "integer", "number", "boolean", "date"}


def test_a_pod_group_shows_its_queue_minimum_priority_and_phase() -> None:
    shown = [column["name"] for column in version_of(kai.POD_GROUP)["additionalPrinterColumns"]]
    assert shown[:4] == ["Queue", "Min-Member", "Priority-Class", "Phase"]


@pytest.mark.parametrize(
    "resource", [kind for kind in KINDS if "scale" in kind.subresources], ids=lambda kind: kind.kind
)
def test_what_can_be_scaled_says_where_its_numbers_are(resource: AnyResource) -> None:
    scale = version_of(resource)["subresources"]["scale"]
    spec_replicas = field_at(root_of(resource), scale["specReplicasPath"])
    assert spec_replicas is not None
    assert "default" in spec_replicas, "an object without replicas couldn't be scaled"
    assert field_at(root_of(resource), scale["statusReplicasPath"])
    assert field_at(root_of(resource), scale["labelSelectorPath"])


# --- what is embedded


def test_pods_of_a_newer_kubernetes_keep_fields_that_we_do_not_know() -> None:
    spec = root_of(grove.POD_CLIQUE)["properties"]["spec"]
    assert "x-kubernetes-preserve-unknown-fields" not in spec
    pod = spec["properties"]["podSpec"]
    assert pod["x-kubernetes-preserve-unknown-fields"] is True
    assert pod["properties"]["containers"]["items"]["x-kubernetes-preserve-unknown-fields"] is True


def test_containers_are_merged_by_name_and_ports_by_number_and_protocol() -> None:
    pod = root_of(grove.POD_CLIQUE)["properties"]["spec"]["properties"]["podSpec"]["properties"]
    assert pod["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    ports = pod["containers"]["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"


def test_a_type_that_no_schema_can_say_is_an_error_of_the_struct() -> None:
    class Odd(KubeObject):
        spec: frozenset[int] = frozenset()

    with pytest.raises(TypeError, match="no place in a CustomResourceDefinition"):
        crd_manifest(Resource("example.com", "v1", "Odd", "odds", Odd))
