"""RuntimeClass admission: pods get the overhead, node selector and tolerations of their class.

Called by the server's own admission when a pod is created. A class that isn't there, or that the pod contradicts,
refuses the pod; so does an overhead that no class gives.
"""

from __future__ import annotations

from typing import Any

from bosket.api.quantity import InvalidQuantity, to_milli
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import ResourceStore


class RefusedByRuntimeClass(ValueError):
    """Why a pod can't be created as it is."""


def apply_runtime_class(spec: dict[str, Any], classes: ResourceStore) -> None:
    """Completes the pod's spec. Raises `RefusedByRuntimeClass`."""
    name = spec.get("runtimeClassName")
    found: Doc = {}
    if name:
        entry = classes.get("", name)
        if entry is None:
            raise RefusedByRuntimeClass(f'pod rejected: RuntimeClass "{name}" not found')
        found = entry.decode()
    _set_overhead(spec, (found.get("overhead") or {}).get("podFixed"))
    scheduling = found.get("scheduling")
    if scheduling:
        _set_node_selector(spec, scheduling.get("nodeSelector", {}))
        tolerations = spec.setdefault("tolerations", [])
        tolerations += [each for each in scheduling.get("tolerations", ()) if each not in tolerations]


def _set_overhead(spec: dict[str, Any], overhead: dict[str, Any] | None) -> None:
    said = spec.get("overhead")
    if overhead is None:
        if said:
            raise RefusedByRuntimeClass(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return
    if said and _amounts(said) != _amounts(overhead):
        raise RefusedByRuntimeClass("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    spec["overhead"] = dict(overhead)


def _set_node_selector(spec: dict[str, Any], wanted: dict[str, str]) -> None:
    selector = spec.get("nodeSelector", {})
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            raise RefusedByRuntimeClass(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}


def _amounts(quantities: dict[str, Any]) -> dict[str, Any]:
    """Quantities by what they amount to: 1000m is 1."""
    try:
        return {name: to_milli(quantity) for name, quantity in quantities.items()}
    except InvalidQuantity:
        return quantities  # the pod's rules refuse it
