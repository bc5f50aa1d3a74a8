"""Pods: what the server makes of them on creation, and how they may change."""

from __future__ import annotations

from typing import Any

from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.podrules import validate_pod
from bosket.apiserver.kinds.podspec import default_pod_spec, requests_from_limits
from bosket.apiserver.store.entry import Doc


def _prepare_create(doc: Doc) -> None:
    status: dict[str, Any] = {"phase": "Pending", "qosClass": qos_class(doc["spec"])}
    if doc["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": doc["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    doc["status"] = status


def _spec(name: str, default: Any = "") -> Any:
    return lambda doc: doc["spec"].get(name, default)


def _status(name: str) -> Any:
    return lambda doc: doc.get("status", {}).get(name, "")


def behaviours(scheduler_name: str) -> dict[tuple[str, str], Behaviour]:
    """Pods, with the scheduler of those that name none."""

    def default(doc: Doc) -> None:
        spec = doc.setdefault("spec", {})
        default_pod_spec(spec, scheduler_name)
        spec.setdefault("enableServiceLinks", True)
        requests_from_limits(spec)

    return {
        ("", "Pod"): Behaviour(
            default=default,
            prepare_create=_prepare_create,
            validate=validate_pod,
            selectable={
                "spec.nodeName": _spec("nodeName"),
                "spec.restartPolicy": _spec("restartPolicy"),
                "spec.schedulerName": _spec("schedulerName"),
                "spec.serviceAccountName": _spec("serviceAccountName"),
                "spec.hostNetwork": _spec("hostNetwork", default=False),
                "status.phase": _status("phase"),
                "status.podIP": _status("podIP"),
                "status.nominatedNodeName": _status("nominatedNodeName"),
            },
            index="spec.nodeName",
            generation=True,
            returns_deleted=True,
        )
    }


_COUNTED = ("cpu", "memory")


def qos_class(spec: dict[str, Any]) -> str:
    """Guaranteed: all containers limit CPU and memory to what they request. BestEffort: none asks for any."""
    guaranteed, any_request = True, False
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _COUNTED:
            request, limit = requests.get(name), limits.get(name)
            if not _zero(request) or not _zero(limit):
                any_request = True
            if _zero(limit) or (request is not None and request != limit):
                guaranteed = False
    if not any_request:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _zero(quantity: object) -> bool:
    return quantity in (None, "0", 0, "")
