"""What clients can ask about what is served: discovery, OpenAPI, version, health, reviews."""

from __future__ import annotations

from typing import Any

import pytest

from bosket.apiserver.server.discovery import version_rank
from bosket.kube.transport import Request
from tests.apiserver.world import DEFINITIONS, JSON, WIDGETS, World, definition, widget

AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"


async def test_the_list_of_a_group_names_kinds_verbs_and_subresources(world: World) -> None:
    found = await world.ok("GET", "/api/v1")
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "v1")
    resources = {each["name"]: each for each in found["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods"]["categories"] == ["all"]
    assert "watch" in resources["pods"]["verbs"]
    assert not resources["nodes"]["namespaced"]
    eviction = resources["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")


async def test_groups_are_listed_with_the_version_to_prefer(world: World) -> None:
    groups = {each["name"]: each for each in (await world.ok("GET", "/apis"))["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert (await world.ok("GET", "/apis/apps"))["kind"] == "APIGroup"
    assert (await world.ok("GET", "/api"))["versions"] == ["v1"]
    await world.refused(404, "GET", "/apis/none.io")


async def test_aggregated_discovery_says_everything_at_once(world: World) -> None:
    answer = await world.call("GET", "/apis", accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["content-type"]
    assert answer.body["apiVersion"] == "apidiscovery.k8s.io/v2"
    groups = {each["metadata"]["name"]: each for each in answer.body["items"]}
    (version,) = groups["apps"]["versions"]
    deployments = next(each for each in version["resources"] if each["resource"] == "deployments")
    assert deployments["scope"] == "Namespaced"
    scale = next(each for each in deployments["subresources"] if each["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    core = (await world.call("GET", "/api", accept=AGGREGATED.replace("v=v2", "v=v2beta1"))).body
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


async def test_a_new_kind_is_discovered_at_once_and_a_gone_one_no_longer(world: World) -> None:
    assert "example.com" not in str(await world.ok("GET", "/apis"))
    await world.ok("POST", DEFINITIONS, definition(subresources={"status": {}}))
    names = [each["name"] for each in (await world.ok("GET", "/apis/example.com/v1"))["resources"]]
    assert names == ["widgets", "widgets/status"]
    assert "apis/example.com/v1" in (await world.ok("GET", "/openapi/v3"))["paths"]
    async with world.running():
        await world.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
        await world.until_gone(f"{DEFINITIONS}/widgets.example.com")
    assert "example.com" not in str(await world.ok("GET", "/apis"))


async def test_unstable_versions_are_served_only_if_enabled(world: World) -> None:
    path = "/apis/scheduling.k8s.io/v1beta1/workloads"
    await world.refused(404, "GET", path)
    enabled = World(enabled_versions=["scheduling.k8s.io/v1beta1"])
    assert (await enabled.ok("GET", path))["items"] == []


async def test_versions_are_preferred_as_kubernetes_does() -> None:
    names = ["v1alpha1", "v2", "v1", "v1beta2", "v11", "v1beta10", "foo"]
    assert sorted(names, key=version_rank, reverse=True) == [
        "v11",
        "v2",
        "v1",
        "v1beta10",
        "v1beta2",
        "v1alpha1",
        "foo",
    ]


async def test_the_version_can_be_parsed_and_health_is_ok(world: World) -> None:
    version = await world.ok("GET", "/version")
    assert (version["major"], version["minor"]) == ("1", "37")
    assert version["gitVersion"].startswith("v1.37.")
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping"):
        assert (await world.call("GET", path)).body == b"ok"


async def test_metrics_count_requests_and_objects(world: World) -> None:
    await world.create_pod("a")
    text = (await world.call("GET", "/metrics")).body.decode()
    about = 'component="apiserver",verb="POST",group="",version="v1",resource="pods",subresource="",scope="namespace"'
    assert f'apiserver_request_total{{{about},code="201",dry_run=""}} 1' in text
    assert f'apiserver_request_duration_seconds_bucket{{{about},le="+Inf"}} 1' in text
    assert 'apiserver_current_inflight_requests{request_kind="mutating"} 0' in text
    assert 'apiserver_storage_objects{resource="pods"} 1' in text


def resolve(document: Any, schema: Any) -> Any:
    """Follow references in a schema."""
    while True:
        if "allOf" in schema:
            (schema,) = schema["allOf"]
        elif "$ref" in schema:
            parts = schema["$ref"].removeprefix("#/").split("/")
            schema = document
            for part in parts:
                schema = schema[part]
        else:
            return schema


@pytest.mark.parametrize("path", ["/openapi/v3/api/v1", "/openapi/v2"])
async def test_schemas_of_built_in_kinds_can_be_followed_to_the_leaves(world: World, path: str) -> None:
    document = await world.ok("GET", path)
    schemas = document["definitions"] if "definitions" in document else document["components"]["schemas"]
    pod = next(
        each
        for each in schemas.values()
        if {"group": "", "version": "v1", "kind": "Pod"} in each.get("x-kubernetes-group-version-kind", ())
    )
    spec = resolve(document, pod["properties"]["spec"])
    container = resolve(document, spec["properties"]["containers"]["items"])
    assert resolve(document, container["properties"]["image"])["type"] == "string"
    limits = resolve(document, container["properties"]["resources"])["properties"]["limits"]
    assert limits["type"] == "object"
    assert "description" in spec


async def test_every_reference_of_every_document_leads_somewhere(world: World) -> None:
    await world.ok("POST", DEFINITIONS, definition())

    def check(document: Any, value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                resolve(document, value)
            for child in value.values():
                check(document, child)
        elif isinstance(value, list):
            for child in value:
                check(document, child)

    index = await world.ok("GET", "/openapi/v3")
    for entry in index["paths"].values():
        document = await world.ok("GET", entry["serverRelativeURL"].partition("?")[0])
        check(document, document)


async def test_kubectl_finds_that_fields_are_validated_here(world: World) -> None:
    """It looks for the parameter of the PATCH of a kind, and validates by itself if it isn't there."""
    document = await world.ok("GET", "/openapi/v3/apis/apps/v1")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]


async def test_the_schema_of_a_custom_resource_is_its_definitions(world: World) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer", "description": "How many."}}}
    await world.ok("POST", DEFINITIONS, definition(schema))
    schemas = (await world.ok("GET", "/openapi/v3/apis/example.com/v1"))["components"]["schemas"]
    found = schemas["com.example.v1.Widget"]
    assert found["properties"]["spec"]["properties"]["x"]["description"] == "How many."
    assert found["properties"]["metadata"]["allOf"]
    assert (await world.call("GET", "/openapi/v3", accept="application/protobuf")).status == 406


async def test_reviews_are_answered_and_not_kept(world: World) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    answer = await world.call("POST", path, review)
    assert (answer.status, answer.body["status"]["allowed"]) == (201, True)
    await world.refused(405, "GET", path)
    who = await world.ok("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who["status"]["userInfo"]["username"] == "system:admin"


@pytest.mark.looptime
async def test_a_token_of_a_service_account_is_good_for_a_while(world: World) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    await world.refused(404, "POST", f"{path}/robot/token", {})
    await world.ok("POST", path, {"metadata": {"name": "robot"}})
    token = (await world.ok("POST", f"{path}/robot/token", {"spec": {"expirationSeconds": 600}}))["status"]["token"]
    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    found = await world.ok("POST", reviews, {"spec": {"token": token}})
    assert found["status"]["user"]["username"] == "system:serviceaccount:default:robot"
    await world.clock.sleep(601)
    assert not (await world.ok("POST", reviews, {"spec": {"token": token}}))["status"].get("authenticated")


async def test_our_client_discovers_everything(world: World) -> None:
    from bosket.kube.client import Client

    await world.ok("POST", DEFINITIONS, definition())
    await world.ok("POST", WIDGETS, widget())
    found = {(each.group, each.kind) for each in await Client(world.transport).discover()}
    assert {("", "Pod"), ("apps", "Deployment"), ("example.com", "Widget")} <= found
    assert (await world.transport.request(Request("GET", "/"))).status == 200
