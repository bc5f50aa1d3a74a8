"""A case of KAI's own scheduling tests as a recorded snapshot: Kubernetes objects whose states are those of the case.

The case's SCHEMA.md says what its fields mean. Pods change from round to round (`PodNow`), everything else stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_GROUP_LABEL,
    GPU_GROUP_LABEL_PREFIX,
    GPU_MEMORY_ANNOTATION,
    LAST_START_ANNOTATION,
    POD_GROUP_ANNOTATION,
    RECEIVED_RESOURCE_TYPE_ANNOTATION,
    STALE_SINCE_ANNOTATION,
    SUBGROUP_LABEL,
    TASK_PRIORITY_LABEL,
)
from bosket.api.object import ObjectKey
from bosket.api.time import format_duration, format_time
from bosket.scheduler.recording.recorded import Recorded, read

Json = dict[str, Any]

NOW = 1.75e9
SECOND = 10**9  #: Go's durations count nanoseconds
#: A pod whose deletion was due this long ago hangs.
LONG_OVERDUE_SECONDS = 3600.0
#: An annotation that makes a legacy MIG pod, even if it asks for nothing.
LEGACY_MIG = "nvidia.com/mig-1g.10gb"

ALLOCATED = frozenset({"Allocated", "Bound", "Binding", "Running"})
PLACED = ALLOCATED | {"Pipelined", "Releasing", "StuckInReleasing"}
PHASES = {
    "Pending": "Pending",
    "Gated": "Pending",
    "Allocated": "Pending",
    "Binding": "Pending",
    "Bound": "Pending",
    "Pipelined": "Pending",
    "Running": "Running",
    "Releasing": "Running",
    "StuckInReleasing": "Running",
    "Succeeded": "Succeeded",
    "Failed": "Failed",
    "Deleted": "Failed",
}


@dataclass(frozen=True, slots=True)
class PodNow:
    """A pod's part that changes from round to round."""

    status: str | None
    node: str
    gpu_groups: tuple[str, ...]


def pods_at_first(case: Json) -> dict[str, PodNow]:
    return {
        pod["name"]: PodNow(pod["status"], pod["nodeName"] or "", tuple(pod["gpuGroups"]))
        for group in case["cluster"]["podGroups"]
        for pod in group["pods"]
    }


def pod_keys(case: Json) -> dict[str, ObjectKey]:
    return {
        pod["name"]: ObjectKey(group["namespace"], pod["name"])
        for group in case["cluster"]["podGroups"]
        for pod in group["pods"]
    }


def claims_at_first(case: Json) -> dict[ObjectKey, Json]:
    """The status of each resource claim."""
    claims = case["cluster"]["resourceClaims"]
    return {ObjectKey(each["namespace"], each["name"]): each["status"] or {} for each in claims}


def record(case: Json, pods: Mapping[str, PodNow], claims: Mapping[ObjectKey, Json] | None = None) -> Recorded:
    """The case's cluster with its pods and claims as they are now; claims as they were at first, if none are given."""
    document = _document(case, pods, claims if claims is not None else claims_at_first(case))
    return read(msgspec.json.encode(document), case["id"])


def has_started(group: Json, pods: Mapping[str, PodNow]) -> bool:
    return any(pods[pod["name"]].status in ALLOCATED for pod in group["pods"])


def _document(case: Json, pods: Mapping[str, PodNow], claims: Mapping[ObjectKey, Json]) -> Json:
    config, cluster = case["config"], case["cluster"]
    groups = cluster["podGroups"]
    return {
        "config": {
            "actions": ", ".join(config["actions"]),
            "tiers": [{"plugins": config["plugins"]}],
            "queueDepthPerAction": config["queueDepthPerAction"],
        },
        "schedulerParams": {
            "schedulerName": config["schedulerName"],
            "maxNumberConsolidationPreemptees": config["maxNumberConsolidationPreemptees"],
            "allowConsolidatingReclaim": config["allowConsolidatingReclaim"],
            # The cases' queues are the whole tree already: nothing is left to be flattened.
            "fullHierarchyFairness": True,
            "useSchedulingSignatures": config["useSchedulingSignatures"],
            "globalDefaultStalenessGracePeriod": config["defaultStalenessGracePeriodSeconds"] * SECOND,
            "queueLabelKey": config["queueLabelKey"],
        },
        "rawObjects": {
            "nodes": [_node(node) for node in cluster["nodes"]],
            "nodeResourceTopologies": [_numa(node) for node in cluster["nodes"] if node.get("numa")],
            "queues": _queues(cluster["queues"]),
            "priorityClasses": [
                {"metadata": {"name": _priority_name(value)}, "value": value}
                for value in sorted({group["priority"] for group in groups})
            ],
            "podGroups": [_pod_group(group, pods) for group in groups],
            "pods": [
                _pod(pod, group, pods[pod["name"]], config["schedulerName"])
                for group in groups
                for pod in group["pods"]
            ],
            "bindRequests": list(_bind_requests(groups, pods)),
            "topologies": [
                {"metadata": {"name": topology["name"]}, "spec": {"levels": topology["levels"]}}
                for topology in cluster["topologies"]
            ],
            "deviceClasses": [{"metadata": {"name": each["name"]}, "spec": {}} for each in cluster["deviceClasses"]],
            "resourceSlices": [_resource_slice(each) for each in cluster["resourceSlices"]],
            "resourceClaims": [
                _resource_claim(each, claims[ObjectKey(each["namespace"], each["name"])])
                for each in cluster["resourceClaims"]
            ],
        },
    }


def _node(node: Json) -> Json:
    return {
        "metadata": {"name": node["name"], "uid": node["name"], "labels": node["labels"]},
        "status": {
            "allocatable": node["allocatable"],
            "capacity": node["capacity"],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _numa(node: Json) -> Json:
    numa = node["numa"]
    return {
        "metadata": {"name": node["name"]},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": numa["policy"]},
            {"name": "topologyManagerScope", "value": numa["scope"]},
        ],
        "zones": [
            {
                "name": zone["id"],
                "type": "Node",
                "resources": [
                    {
                        "name": name,
                        "capacity": amount,
                        "allocatable": amount,
                        "available": zone["available"].get(name, amount),
                    }
                    for name, amount in zone["allocatable"].items()
                ],
            }
            for zone in numa["zones"]
        ],
    }


def _queues(queues: Iterable[Json]) -> list[Json]:
    """Older ones by `createdAtSeconds`; of equal ones the first in the list, which seconds alone couldn't tell."""
    ordered = list(queues)
    by_age = sorted(range(len(ordered)), key=lambda place: (ordered[place]["createdAtSeconds"], place))
    ages = {place: age for age, place in enumerate(by_age)}
    return [_queue(queue, NOW + ages[place]) for place, queue in enumerate(ordered)]


def _queue(queue: Json, created: float) -> Json:
    # KAI's own tests give -1, "unlimited", as the weight of queues whose quota is unlimited, where it has no effect.
    resources = {
        name: {**share, "overQuotaWeight": 1 if share["overQuotaWeight"] < 0 else share["overQuotaWeight"]}
        for name, share in queue["resources"].items()
    }
    return _present(
        {
            "metadata": {"name": queue["name"], "uid": queue["name"], "creationTimestamp": format_time(created)},
            "spec": _present(
                {
                    "parentQueue": queue["parentQueue"],
                    "priority": queue["priority"],
                    "resources": resources,
                    "reclaimMinRuntime": _seconds(queue["reclaimMinRuntimeSeconds"]),
                    "preemptMinRuntime": _seconds(queue["preemptMinRuntimeSeconds"]),
                }
            ),
        }
    )


def _pod_group(group: Json, pods: Mapping[str, PodNow]) -> Json:
    annotations = {}
    if has_started(group, pods):
        annotations[LAST_START_ANNOTATION] = format_time(NOW - (group["lastStartAgeSeconds"] or 60))
    if group["staleAgeSeconds"] is not None:
        annotations[STALE_SINCE_ANNOTATION] = format_time(NOW - group["staleAgeSeconds"])
    return {
        "metadata": {
            "name": group["name"],
            "namespace": group["namespace"],
            "uid": group["name"],
            "creationTimestamp": format_time(NOW - group["ageSeconds"]),
            "annotations": annotations,
        },
        "spec": _present(
            {
                "queue": group["queue"],
                "minMember": group["minMember"],
                "minSubGroup": group["minSubGroup"],
                "priorityClassName": _priority_name(group["priority"]),
                "preemptibility": group["preemptibility"],
                "topologyConstraint": _topology(group["topologyConstraint"]),
                "subGroups": [_subgroup(each) for each in group["subGroups"]],
                "stalenessGracePeriod": _seconds(group["stalenessGracePeriodSeconds"]),
                "preemptionDelay": _seconds(group["preemptionDelaySeconds"]),
            }
        ),
    }


def _subgroup(subgroup: Json) -> Json:
    return _present(
        {
            "name": subgroup["name"],
            "parent": subgroup["parent"],
            "minMember": subgroup["minMember"],
            "minSubGroup": subgroup["minSubGroup"],
            "topologyConstraint": _topology(subgroup["topologyConstraint"]),
        }
    )


def _topology(constraint: Json | None) -> Json | None:
    return _present(constraint) if constraint and constraint["topology"] else None


def _pod(pod: Json, group: Json, now: PodNow, scheduler: str) -> Json:
    placed = now.status in PLACED
    labels = dict(pod.get("labels") or {})
    annotations = {POD_GROUP_ANNOTATION: group["name"], **(pod.get("annotations") or {})}
    if pod["subGroup"]:
        labels[SUBGROUP_LABEL] = pod["subGroup"]
    if pod["taskPriority"] is not None:
        labels[TASK_PRIORITY_LABEL] = str(pod["taskPriority"])
    annotations |= dict(_gpu_annotations(pod))
    if placed:
        annotations[RECEIVED_RESOURCE_TYPE_ANNOTATION] = _received_type(pod)
        labels |= _gpu_group_labels(pod, now)
    metadata = {
        "name": pod["name"],
        "namespace": group["namespace"],
        "uid": pod["name"],
        "labels": labels,
        "annotations": annotations,
    }
    if now.status in ("Releasing", "StuckInReleasing"):
        overdue = LONG_OVERDUE_SECONDS if now.status == "StuckInReleasing" else 0.0
        metadata["deletionTimestamp"] = format_time(NOW - overdue)
    return {"metadata": metadata, "spec": _pod_spec(pod, now, scheduler), "status": _pod_status(pod, now)}


def _pod_spec(pod: Json, now: PodNow, scheduler: str) -> Json:
    resources = {"requests": pod["requests"]}
    if pod.get("qosClass") == "Guaranteed":
        resources["limits"] = pod["requests"]
    on_node = now.status not in {"Pending", "Gated", "Allocated", "Binding", "Pipelined"}
    return _present(
        {
            "schedulerName": scheduler,
            "nodeName": now.node if on_node else "",
            "affinity": pod.get("affinity"),
            "schedulingGates": [{"name": "gate"}] if now.status == "Gated" else [],
            "containers": [{"name": "main", "resources": resources}],
            "resourceClaims": [
                _present(
                    {
                        "name": claim["name"],
                        "resourceClaimName": claim["claimName"],
                        "resourceClaimTemplateName": claim["templateName"],
                    }
                )
                for claim in pod.get("resourceClaims") or ()
            ],
            "volumes": [
                {"name": name, "persistentVolumeClaim": {"claimName": name}}
                for name in pod.get("persistentVolumeClaims") or ()
            ],
        }
    )


def _pod_status(pod: Json, now: PodNow) -> Json:
    return _present({"phase": PHASES.get(now.status or "", "Unknown"), "qosClass": pod.get("qosClass")})


def _gpu_annotations(pod: Json) -> Iterator[tuple[str, str]]:
    if pod["gpuFraction"] is not None:
        yield GPU_FRACTION_ANNOTATION, str(pod["gpuFraction"])
    if pod["gpuMemoryMiB"] is not None:
        yield GPU_MEMORY_ANNOTATION, str(pod["gpuMemoryMiB"])
    if pod["gpuDevices"] is not None:
        yield GPU_FRACTION_DEVICES_ANNOTATION, str(pod["gpuDevices"])
    if pod.get("legacyMig"):
        yield LEGACY_MIG, "0"
        for profile, count in (pod.get("migRequestAnnotation") or {}).items():
            yield profile, str(count)


def _received_type(pod: Json) -> str:
    if shares_gpu(pod):
        return "Fraction"
    return "MigInstance" if any("/mig-" in name for name in pod["requests"]) else "Regular"


def shares_gpu(pod: Json) -> bool:
    return pod["gpuFraction"] is not None or pod["gpuMemoryMiB"] is not None


def _gpu_group_labels(pod: Json, now: PodNow) -> dict[str, str]:
    if not shares_gpu(pod):
        return {}
    if (pod["gpuDevices"] or 1) == 1:
        return {GPU_GROUP_LABEL: now.gpu_groups[0]} if now.gpu_groups else {}
    return {GPU_GROUP_LABEL_PREFIX + group: group for group in now.gpu_groups}


def _bind_requests(groups: Iterable[Json], pods: Mapping[str, PodNow]) -> Iterator[Json]:
    """A pod that was given a node but isn't there yet has a request under way."""
    for group in groups:
        for pod in group["pods"]:
            now = pods[pod["name"]]
            if now.status in ("Allocated", "Binding"):
                yield {
                    "metadata": {"name": pod["name"], "namespace": group["namespace"]},
                    "spec": {"podName": pod["name"], "selectedNode": now.node, "selectedGPUGroups": now.gpu_groups},
                    "status": {"phase": "Pending"},
                }


def _resource_slice(each: Json) -> Json:
    return {
        "metadata": {"name": each["name"]},
        "spec": _present(
            {
                "driver": each["driver"],
                "pool": {"name": each["pool"], "generation": 1, "resourceSliceCount": each["poolSliceCount"]},
                "nodeName": each["nodeName"],
                "nodeSelector": each["nodeSelector"],
                "allNodes": each["allNodes"] or None,
                "devices": [
                    {
                        "name": device["name"],
                        "capacity": {name: {"value": value} for name, value in device["capacity"].items()},
                    }
                    for device in each["devices"]
                ],
            }
        ),
    }


def _resource_claim(claim: Json, status: Json) -> Json:
    requests = [
        {
            "name": request["name"],
            "exactly": {
                "deviceClassName": request["deviceClassName"],
                "allocationMode": request["allocationMode"],
                "count": request["count"],
            },
        }
        for request in claim["requests"]
    ]
    return {
        "metadata": {
            "name": claim["name"],
            "namespace": claim["namespace"],
            "uid": claim["name"],
            "labels": claim["labels"],
        },
        "spec": {"devices": {"requests": requests}},
        "status": status,
    }


def _priority_name(value: int) -> str:
    return f"priority-{value}"


def _seconds(value: float | None) -> str | None:
    return None if value is None else format_duration(value)


def _present(fields: Mapping[str, Any]) -> Json:
    return {key: value for key, value in fields.items() if value not in (None, "", [])}
