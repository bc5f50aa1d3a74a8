"""What every API server promises about collections: pages, selectors, deletion of many, discovery."""

from __future__ import annotations

import asyncio
import json

import pytest

from bosket.api.core import ConfigMap, Node, Pod
from bosket.kube.errors import BadRequest, Gone
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import config_map, pod


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
