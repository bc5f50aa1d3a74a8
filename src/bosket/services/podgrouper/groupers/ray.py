"""Ray: clusters, and the jobs and services that have one made for them."""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.kai import SubGroup, TopologyConstraint
from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.groupers.default import base_group, close_together
from bosket.services.podgrouper.owner import Owner
from bosket.services.podgrouper.workload import Grouping, Workload

_GROUP_LABEL: Final = "ray.io/group"
_HEAD_GROUP: Final = "headgroup"


def ray_cluster(workload: Workload) -> Grouping:
    """A cluster that stands alone."""
    return _grouping(workload, workload.top)


def ray_job(workload: Workload) -> Grouping:
    """A RayJob's pods belong to the cluster that its status names."""
    return _grouping(workload, _cluster_of(workload, ("status", "rayClusterName")))


def ray_service(workload: Workload) -> Grouping:
    """The cluster that serves, or the one that is to."""
    return _grouping(
        workload,
        _cluster_of(
            workload,
            ("status", "activeServiceStatus", "rayClusterName"),
            ("status", "pendingServiceStatus", "rayClusterName"),
        ),
    )


def _cluster_of(workload: Workload, *paths: tuple[str, ...]) -> Owner:
    content = Part(workload.top)
    for path in paths:
        name = content.text(*path)
        if name:
            return workload.read(workload.top.gvk._replace(kind="RayCluster"), name)
        if name is not None:
            break
    raise content.error("names no RayCluster yet; Ray's operator sets it when it has made one", *paths[0])


def _grouping(workload: Workload, cluster: Owner) -> Grouping:
    """The head and each group of workers is a sub-group; of the workers the smallest number that Ray may scale to."""
    subgroups = _subgroups(Part(cluster))
    group = base_group(workload, min_member=sum(each.minMember or 0 for each in subgroups))
    existing = workload.cluster.pod_group(group.key)
    is_flat = existing is not None and not existing.spec.subGroups  # made before there were sub-groups: it stays so
    own = workload.pod.metadata.labels.get(_GROUP_LABEL, "")
    # Ray has a label of its own for the priority; it isn't checked, as in KAI.
    priority = workload.top.labels.get(keys.RAY_PRIORITY_CLASS_LABEL, group.spec.priorityClassName)
    spec = msgspec.structs.replace(
        group.spec, priorityClassName=priority, subGroups=() if is_flat else tuple(subgroups)
    )
    is_member = any(each.name == own for each in spec.subGroups)
    return Grouping(msgspec.structs.replace(group, spec=spec), own if is_member else "")


def _subgroups(cluster: Part) -> list[SubGroup]:
    head = cluster.part("spec", "headGroupSpec")
    found = [
        SubGroup(
            name=_HEAD_GROUP,
            minMember=1,
            topologyConstraint=_template_topology(head) if head is not None else None,
        )
    ]
    for index, group in enumerate(cluster.parts("spec", "workerGroupSpecs") or ()):
        workers = _workers(group)
        if workers is None:
            continue
        name = group.text("groupName") or f"worker-group-{index}"
        if any(each.name == name for each in found):
            raise group.error(f'is "{name}", as another group is called', "groupName")
        found.append(SubGroup(name=name, minMember=workers, topologyConstraint=_template_topology(group)))
    return found


def _workers(group: Part) -> int | None:
    """How many workers a group must have; None when it has none at all."""
    if group.flag("suspended"):
        return None
    replicas = group.count("replicas") or 0
    least = group.count("minReplicas") or 0
    if least > replicas:
        raise group.error(f"is {least}, above its {replicas} replicas", "minReplicas")
    if replicas == 0:
        return None
    hosts = group.count("numOfHosts")
    return (least or replicas) * (1 if hosts is None else hosts)


def _template_topology(group: Part) -> TopologyConstraint | None:
    def annotation(key: str) -> str:
        return group.text("template", "metadata", "annotations", key) or ""

    topology = annotation(keys.TOPOLOGY_ANNOTATION)
    required = annotation(keys.TOPOLOGY_REQUIRED_ANNOTATION)
    preferred = annotation(keys.TOPOLOGY_PREFERRED_ANNOTATION)
    if not topology and (required or preferred):
        raise group.error(
            "is missing; a placement is at a level of some topology",
            "template", "metadata", "annotations", keys.TOPOLOGY_ANNOTATION,
        )  # fmt: skip
    return close_together(topology, required, preferred)
