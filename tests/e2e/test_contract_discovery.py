"""What every API server tells about itself: kinds, schemas, version, health, numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bosket.kube.errors import ApiError
from bosket.kube.transport import Response
from tests.e2e.cluster import Cluster
from tests.e2e.taught import fields, teaching, version

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
PATHS = "/openapi/v3"


async def get(cluster: Cluster, path: str, **headers: str) -> Response:
    about = {name.replace("_", "-"): value for name, value in headers.items()}
    where, _, question = path.partition("?")
    query = tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in question.split("&") if pair)
    response = await cluster.client.raw("GET", where, query=query, headers=about)
    return Response(response.status, {key.lower(): value for key, value in response.headers.items()}, response.body)


async def read(cluster: Cluster, path: str, **headers: str) -> Any:
    return json.loads((await get(cluster, path, **headers)).body)


async def test_groups_and_their_kinds_are_listed(cluster: Cluster) -> None:
    assert (await read(cluster, "/api"))["versions"] == ["v1"]
    groups = {each["name"]: each for each in (await read(cluster, "/apis"))["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert {"batch", "policy", "scheduling.k8s.io", "rbac.authorization.k8s.io", "scheduling.run.ai"} <= groups.keys()
    group = await read(cluster, "/apis/apps")
    assert (group["kind"], group["name"]) == ("APIGroup", "apps")
    listed = await read(cluster, "/api/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    resources = {each["name"]: each for each in listed["resources"]}
    pods = resources["pods"]
    assert (pods["kind"], pods["singularName"], pods["namespaced"]) == ("Pod", "pod", True)
    assert (pods["shortNames"], pods["categories"]) == (["po"], ["all"])
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    eviction = resources["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert eviction["verbs"] == ["create"]
    assert not resources["nodes"]["namespaced"]
    assert "pods/status" in resources
    apps = {each["name"]: each for each in (await read(cluster, "/apis/apps/v1"))["resources"]}
    assert apps["deployments/scale"]["kind"] == "Scale"
    assert apps["deployments/scale"]["group"] == "autoscaling"
    for path in ("/apis/nobody.example.com", "/apis/apps/v9", "/api/v2"):
        with pytest.raises(ApiError) as refusal:
            await read(cluster, path)
        assert refusal.value.code == 404


async def test_aggregated_discovery_says_everything_at_once_and_is_not_sent_twice(cluster: Cluster) -> None:
    first = await get(cluster, "/apis", accept=AGGREGATED)
    assert first.headers["content-type"] == AGGREGATED
    document = json.loads(first.body)
    assert (document["kind"], document["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {each["metadata"]["name"]: each for each in document["items"]}
    served = groups["apps"]["versions"][0]
    assert (served["version"], served["freshness"]) == ("v1", "Current")
    deployments = next(each for each in served["resources"] if each["resource"] == "deployments")
    assert (deployments["scope"], deployments["singularResource"]) == ("Namespaced", "deployment")
    assert deployments["responseKind"]["kind"] == "Deployment"
    scale = next(each for each in deployments["subresources"] if each["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert set(scale["verbs"]) == {"get", "patch", "update"}
    again = await get(cluster, "/apis", accept=AGGREGATED, if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    plain = await get(cluster, "/apis", accept="application/json")
    assert json.loads(plain.body)["kind"] == "APIGroupList"
    core = await read(cluster, "/api", accept=AGGREGATED)
    (only,) = core["items"]
    assert "pods" in [each["resource"] for each in only["versions"][0]["resources"]]


async def test_a_taught_kind_is_discovered_and_described(cluster: Cluster) -> None:
    schema = fields(size={"type": "integer", "description": "How many."}, mode={"type": "string", "enum": ["a", "b"]})
    async with teaching(cluster) as taught:
        await taught.teach(
            version(schema, subresources={"status": {}}, selectableFields=[]), shortNames=["wx"], categories=["toys"]
        )
        listed = await cluster.eventually(lambda: read(cluster, f"/apis/{taught.group}/v1"))
        resources = {each["name"]: each for each in listed["resources"]}
        assert resources["widgets"]["shortNames"] == ["wx"]
        assert resources["widgets"]["categories"] == ["toys"]
        assert set(resources["widgets/status"]["verbs"]) == {"get", "patch", "update"}

        async def described() -> Any:
            paths = (await read(cluster, PATHS))["paths"]
            assert f"apis/{taught.group}/v1" in paths
            return await read(cluster, paths[f"apis/{taught.group}/v1"]["serverRelativeURL"])

        document = await cluster.eventually(described)
        name = ".".join([*reversed(taught.group.split(".")), "v1", "Widget"])
        found = document["components"]["schemas"][name]
        assert found["properties"]["spec"]["properties"]["size"]["description"] == "How many."
        identity = {"group": taught.group, "version": "v1", "kind": "Widget"}
        assert found["x-kubernetes-group-version-kind"] == [identity]
        assert f"{name}List" in document["components"]["schemas"]
        item = f"/apis/{taught.group}/v1/namespaces/{{namespace}}/widgets/{{name}}"
        assert document["paths"][item]["patch"]["x-kubernetes-group-version-kind"] == identity
        assert f"{item}/status" in document["paths"]

        async def explained() -> str:
            # By the group: kubectl may still know of other tests' widgets, which are gone.
            return await cluster.kubectl("explain", "widgets.spec.size", f"--api-version={taught.group}/v1")

        assert "How many." in await cluster.eventually(explained)
        tree = await cluster.kubectl("explain", "widgets.spec", "--recursive", f"--api-version={taught.group}/v1")
        assert "size" in tree
        assert "enum: a, b" in tree


async def test_schemas_of_version_3_have_hashes_and_are_not_sent_twice(cluster: Cluster) -> None:
    paths = (await read(cluster, PATHS))["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/batch/v1", "apis/scheduling.run.ai/v2"} <= paths.keys()
    where = paths["apis/apps/v1"]["serverRelativeURL"]
    assert where.startswith("/openapi/v3/apis/apps/v1?hash=")
    first = await get(cluster, where)
    assert first.headers["etag"] == f'"{where.partition("=")[2]}"'
    assert "immutable" in first.headers["cache-control"]
    again = await get(cluster, "/openapi/v3/apis/apps/v1", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    with pytest.raises(ApiError) as refusal:
        await get(cluster, "/openapi/v3/apis/nobody.example.com/v1")
    assert refusal.value.code == 404


@pytest.mark.parametrize("number", [2, 3])
async def test_schemas_say_how_lists_are_merged(cluster: Cluster, number: int) -> None:
    if number == 2:
        document = await read(cluster, "/openapi/v2")
        schemas, head = document["definitions"], "#/definitions/"
        assert document["swagger"] == "2.0"
    else:
        document = await read(cluster, "/openapi/v3/api/v1")
        schemas, head = document["components"]["schemas"], "#/components/schemas/"
        assert document["openapi"].startswith("3.0")
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert f"{head}io.k8s.api.core.v1.PodSpec" in json.dumps(pod["properties"]["spec"])
    assert f"{head}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in json.dumps(pod["properties"]["metadata"])
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["type"], containers["x-kubernetes-list-type"]) == ("array", "map")
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    container = schemas["io.k8s.api.core.v1.Container"]
    assert container["required"] == ["name"]
    assert container["properties"]["image"]["type"] == "string"
    assert container["properties"]["ports"]["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert container["properties"]["args"]["x-kubernetes-list-type"] == "atomic"
    assert schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    assert "io.k8s.api.core.v1.PodList" in schemas
    assert "patch" in document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]


EXPLAINED = {
    "pod.spec.containers": ("KIND:       Pod", "FIELD: containers <[]Container>", "image", "resources"),
    "deployment.spec.strategy": ("GROUP:      apps", "FIELD: strategy <DeploymentStrategy>", "rollingUpdate", "type"),
    "job.spec.template.spec.nodeSelector": ("KIND:       Job", "FIELD: nodeSelector <map[string]string>"),
    "pod.spec.containers.resources.limits": ("FIELD: limits <map[string]Quantity>",),
    "pod.spec.containers.livenessProbe.httpGet.port": ("FIELD: port <IntOrString>",),
    "queue.spec": ("GROUP:      scheduling.run.ai", "FIELD: spec <Object>", "parentQueue", "resources"),
    "pod.metadata.ownerReferences": ("FIELD: ownerReferences <[]OwnerReference>", "-required-"),
}


async def test_kubectl_explains_fields(cluster: Cluster) -> None:
    for field, words in EXPLAINED.items():
        text = await cluster.kubectl("explain", field)
        for each in words:
            assert each in text, (field, text)
    tree = await cluster.kubectl("explain", "queue.spec", "--recursive")
    assert all(each in tree for each in ("overQuotaWeight", "limit", "quota", "priority"))
    missing = await cluster.kubectl("explain", "pod.spec.nosuchfield", code=1)
    assert 'field "nosuchfield" does not exist' in missing


async def test_kubectl_lists_kinds_and_versions(cluster: Cluster) -> None:
    kinds = await cluster.kubectl("api-resources", "--api-group=apps", "-o", "name")
    assert {"deployments.apps", "replicasets.apps", "statefulsets.apps"} <= set(kinds.split())
    assert "deployments" in await cluster.kubectl("api-resources", "--categories=all", "-o", "name")
    assert {"v1", "apps/v1", "scheduling.run.ai/v2"} <= set((await cluster.kubectl("api-versions")).split())


async def test_version_and_health_are_told(cluster: Cluster) -> None:
    told = await read(cluster, "/version")
    assert told["major"] == "1"
    assert told["gitVersion"].startswith(f"v1.{told['minor']}.")
    assert "/" in told["platform"]
    for kind in ("healthz", "livez", "readyz"):
        assert (await get(cluster, f"/{kind}")).body == b"ok"
        assert (await get(cluster, f"/{kind}/ping")).body == b"ok"
        verbose = (await get(cluster, f"/{kind}?verbose")).body.decode()
        assert verbose.startswith("[+]ping ok\n[+]log ok\n")
        assert verbose.endswith(f"{kind} check passed\n")
        assert "[+]log excluded: ok" in (await get(cluster, f"/{kind}?verbose&exclude=log")).body.decode()
        with pytest.raises(ApiError) as refusal:
            await get(cluster, f"/{kind}/nosuchcheck")
        assert refusal.value.code == 404
    paths = (await read(cluster, "/"))["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/metrics", "/version"} <= set(paths)


async def test_metrics_count_requests(cluster: Cluster) -> None:
    await read(cluster, f"/api/v1/namespaces/{cluster.namespace}/pods")
    text = (await get(cluster, "/metrics")).body.decode()
    lists = [
        line
        for line in text.splitlines()
        if line.startswith("apiserver_request_total{")
        and all(each in line for each in ('verb="LIST"', 'resource="pods"', 'code="200"', 'scope="namespace"'))
    ]
    assert lists
    assert "# TYPE apiserver_request_duration_seconds histogram" in text
    assert 'apiserver_current_inflight_requests{request_kind="mutating"}' in text
    assert "apiserver_longrunning_requests{" in text
    assert "# TYPE apiserver_resource_objects gauge" in text
