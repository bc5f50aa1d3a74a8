"""Small cases in the corpora's own form, for tests of the judge."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def node(name: str, gpus: int) -> Json:
    amounts = {"cpu": "20k", "memory": "20G", "nvidia.com/gpu": str(gpus), "pods": "110"}
    return {"name": name, "labels": {"kai.scheduler/type": name}, "allocatable": amounts, "capacity": amounts}


def pod(name: str, status: str = "Pending", node: str | None = None, gpus: int = 1) -> Json:
    return {
        "name": name,
        "status": status,
        "nodeName": node,
        "subGroup": None,
        "requests": {"cpu": "1", "memory": "1G", "nvidia.com/gpu": str(gpus)},
        "gpuFraction": None,
        "gpuMemoryMiB": None,
        "gpuDevices": None,
        "gpuGroups": [],
        "taskPriority": None,
    }


def pod_group(name: str, *pods: Json, minimum: int = 1, keep_releasing: bool = False) -> Json:
    return {
        "name": name,
        "namespace": "",
        "queue": "q",
        "priority": 50,
        "preemptibility": "preemptible",
        "ageSeconds": 60,
        "minMember": minimum,
        "minSubGroup": None,
        "topologyConstraint": None,
        "subGroups": [],
        "lastStartAgeSeconds": None,
        "staleAgeSeconds": None,
        "stalenessGracePeriodSeconds": None,
        "preemptionDelaySeconds": None,
        "keepReleasingBetweenRounds": keep_releasing,
        "pods": list(pods),
    }


def wanted(status: str | None, node: str | None = None, **more: Any) -> Json:
    return {"status": status, "nodeName": node, **more}


def case(
    *groups: Json,
    nodes: tuple[Json, ...] = (),
    pod_groups: Json | None = None,
    pods: Json | None = None,
    expected_nodes: Json | None = None,
    calls: Json | None = None,
    rounds: tuple[int, int] | None = None,
) -> Json:
    """One queue without bounds; `rounds` are those before and after the match."""
    return {
        "id": "sketch/000",
        "config": {
            "actions": ["allocate", "no-such-action"],
            "plugins": [{"name": "predicates"}, {"name": "nodeavailability"}, {"name": "no-such-plugin"}],
            "schedulerName": "kai-scheduler",
            "queueLabelKey": "kai.scheduler/queue",
            "maxNumberConsolidationPreemptees": -1,
            "allowConsolidatingReclaim": True,
            "useSchedulingSignatures": False,
            "defaultStalenessGracePeriodSeconds": 0,
            "queueDepthPerAction": {},
        },
        "rounds": {
            "mode": "rounds" if rounds else "single",
            "untilMatch": rounds[0] if rounds else 1,
            "afterMatch": rounds[1] if rounds else 0,
        },
        "cluster": {
            "nodes": list(nodes) or [node("node0", 2)],
            "queues": [
                {
                    "name": "q",
                    "parentQueue": None,
                    "priority": 100,
                    "createdAtSeconds": 0,
                    "resources": {"gpu": FREE, "cpu": FREE, "memory": FREE},
                    "reclaimMinRuntimeSeconds": None,
                    "preemptMinRuntimeSeconds": None,
                }
            ],
            "podGroups": list(groups),
            "topologies": [],
            "deviceClasses": [],
            "resourceSlices": [],
            "resourceClaims": [],
        },
        "expected": {
            "podGroups": pod_groups or {},
            "pods": pods or {},
            "nodes": expected_nodes or {},
            "maxCallsPerRound": calls or {"bind": 9, "evict": 9, "pipeline": 9},
            "assertions": [],
        },
    }
