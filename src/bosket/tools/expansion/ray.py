"""Ray: a head and groups of workers, also below the jobs and services that have a cluster made for them."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.services.podgrouper.field import Part
from bosket.tools.expansion.item import Document, Item, child, counted, pod_of


def ray_cluster(item: Item) -> Iterator[Document]:
    """The head, and as many workers as each group has replicas."""
    if item.part.flag("spec", "suspend"):
        return
    head = item.part.part("spec", "headGroupSpec")
    if head is None:
        raise item.part.error("is missing", "spec", "headGroupSpec")
    yield _pod(item, head, f"{item.name}-head", "headgroup", "head")
    for number, group in enumerate(item.part.parts("spec", "workerGroupSpecs") or ()):
        if group.flag("suspend") or group.flag("suspended"):
            continue
        name = group.text("groupName") or f"worker-group-{number}"
        for index in range(counted(group, "replicas", default=0) * counted(group, "numOfHosts")):
            yield _pod(item, group, f"{item.name}-{name}-worker-{index}", name, "worker")


def ray_job(item: Item) -> Iterator[Document]:
    """The cluster; the pod that submits the job comes when that runs."""
    if item.part.flag("spec", "suspend"):
        return
    spec = item.part.part("spec", "rayClusterSpec")
    if spec is None:
        raise item.part.error(
            "is missing; a job on a cluster that runs already brings no pods", "spec", "rayClusterSpec"
        )
    name = f"{item.name}-plan"
    item.document["status"] = {**(item.document.get("status") or {}), "rayClusterName": name}
    yield child(item, item.gvk.api_version, "RayCluster", name, spec=dict(spec.content))


def ray_service(item: Item) -> Iterator[Document]:
    """The cluster that is to serve."""
    spec = item.part.part("spec", "rayClusterConfig")
    if spec is None:
        raise item.part.error("is missing", "spec", "rayClusterConfig")
    name = f"{item.name}-plan"
    status = {"pendingServiceStatus": {"rayClusterName": name}}
    item.document["status"] = {**(item.document.get("status") or {}), **status}
    yield child(item, item.gvk.api_version, "RayCluster", name, spec=dict(spec.content))


def _pod(item: Item, group: Part, name: str, group_name: str, node_type: str) -> Document:
    template = group.part("template")
    if template is None:
        raise group.error("is missing; pods are made from it", "template")
    labels = {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": item.name,
        "ray.io/group": group_name,
        "ray.io/node-type": node_type,
    }
    return pod_of(item, template, name, labels=labels)
