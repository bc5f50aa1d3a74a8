"""NodeSizes: whether a request is larger than every node."""

from __future__ import annotations

from operator import le

from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS, ResourceIndex, all_resources
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ClassIndex, PodClass, Task

MILLICORES = 1000.0
GIGABYTE = 1e9
#: Extended resources that are amounts of bytes.
STORAGE = frozenset({"ephemeral-storage", "storage"})


class NodeSizes:
    """By resource, the most that one node of the pool has."""

    def __init__(self, snapshot: Snapshot) -> None:
        allocatable = snapshot.nodes.allocatable
        self._names = snapshot.resource_names
        self._pool = snapshot.node_pool
        self._most: list[float] = allocatable.max(axis=1, initial=0.0).tolist()  # by resource
        self._known: dict[ClassIndex, str] = {}

    def objection(self, task: Task) -> str:
        """Empty when some node is large enough, were it empty."""
        pod_class = task.pod_class
        text = self._known.get(pod_class.index)
        if text is None:
            text = self._known[pod_class.index] = self._look(pod_class)
        return f"The pod {task.key} requires {text}" if text else ""

    def _look(self, pod_class: PodClass) -> str:
        most = self._most
        if pod_class.share is None and all(map(le, pod_class.amounts, most)):
            return ""
        request = pod_class.demand_by(None).tolist()
        served = pod_class.device_needs.instead if pod_class.device_needs is not None else ()
        for resource in (GPU, CPU, MEMORY, *all_resources(request)[PODS:]):
            if request[resource] > most[resource] and resource not in served:
                return f"{self._request(pod_class)}. {self._topped(resource, most[resource])}"
        return ""

    def _topped(self, resource: ResourceIndex, most: float) -> str:
        name = self._names[resource]
        what, unit, most = {
            GPU: ("GPU", "", most),
            CPU: ("CPU", " cores", most / MILLICORES),
            MEMORY: ("memory", " GB", most / GIGABYTE),
        }.get(resource, (name, " GB", most / GIGABYTE) if name in STORAGE else (name, "", most))
        if not most:
            return f"No node in the {self._pool} node-pool has {what} resources"
        return (
            f"Max {what} resources available in a single node in the {self._pool} node-pool is topped at "
            f"{_short(most)}{unit}"
        )

    def _request(self, pod_class: PodClass) -> str:
        request = pod_class.demand_by(None)
        parts = [
            f"GPU: {_short(request[GPU])}",
            f"CPU: {_short(request[CPU] / MILLICORES)} (cores)",
            f"memory: {_short(request[MEMORY] / GIGABYTE)} (GB)",
        ]
        for resource, amount in pod_class.holds:
            name = self._names[resource]
            if resource >= PODS:
                in_bytes = name in STORAGE
                parts.append(f"{name}: {_short(amount / GIGABYTE)} (GB)" if in_bytes else f"{name}: {_short(amount)}")
        return ", ".join(parts)


def _short(value: float) -> str:
    """At most three digits after the point; further ones are cut off."""
    whole, _, rest = f"{value:.6f}".partition(".")
    rest = rest[:3].rstrip("0")
    return f"{whole}.{rest}" if rest else whole
