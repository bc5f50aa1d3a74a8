"""A pod's quality-of-service class, from what its containers request and limit."""

from __future__ import annotations

from typing import Any

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
