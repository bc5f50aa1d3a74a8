"""Gauges of queues, by KAI's names; labels of queues may become labels of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from bosket.api.kai import Queue
from bosket.api.quantity import InvalidQuantity, Quantity, parse

_NAMES: Final = {
    "queue_info": "Queues info: 1 for each.",
    "queue_deserved_gpus": "GPUs that a queue is owed; -1 is unlimited.",
    "queue_quota_cpu_cores": "CPU cores that a queue is owed; -1 is unlimited.",
    "queue_quota_memory_bytes": "Bytes of memory that a queue is owed; -1 is unlimited.",
    "queue_allocated_gpus": "GPUs in use in a queue and all below it.",
    "queue_allocated_cpu_cores": "CPU cores in use in a queue and all below it.",
    "queue_allocated_memory_bytes": "Bytes of memory in use in a queue and all below it.",
}
_DIGITS: Final = 4
_MILLICORES: Final = 1000
_MEGABYTE: Final = 10**6


class QueueMetrics:
    """What Prometheus is shown of queues."""

    def __init__(
        self, registry: CollectorRegistry, namespace: str, label_names: Mapping[str, str], defaults: Mapping[str, str]
    ) -> None:
        """`label_names`: metric labels by the queue labels that they show; `defaults`: what is shown without one."""
        self._label_names = label_names
        self._defaults = defaults
        names = ("queue_name", "queue_metadata_name", "queue_display_name", *label_names.values())
        self._gauges = {
            name: Gauge(name, text, names, namespace=namespace, registry=registry) for name, text in _NAMES.items()
        }
        self._shown: dict[str, tuple[str, ...]] = {}

    def show(self, queue: Queue) -> None:
        """The queue as it is now."""
        name = queue.metadata.name
        shown = (queue.metadata.labels.get(key, self._defaults.get(key, "")) for key in self._label_names)
        labels = (name, name, queue.spec.displayName, *shown)
        if self._shown.get(name, labels) != labels:
            self.forget(name)
        self._shown[name] = labels
        for gauge, value in _values(queue).items():
            self._gauges[gauge].labels(*labels).set(value)

    def forget(self, name: str) -> None:
        """A queue that is gone has no series."""
        labels = self._shown.pop(name, None)
        if labels is not None:
            for gauge in self._gauges.values():
                gauge.remove(*labels)


def _values(queue: Queue) -> dict[str, float]:
    shares, used = queue.spec.resources, queue.status.allocated
    gpu, cpu, memory = (shares.gpu.quota, shares.cpu.quota, shares.memory.quota) if shares is not None else (0.0,) * 3
    return {
        "queue_info": 1.0,
        "queue_deserved_gpus": gpu,
        "queue_quota_cpu_cores": cpu if cpu < 0 else cpu / _MILLICORES,
        "queue_quota_memory_bytes": memory if memory < 0 else memory * _MEGABYTE,
        "queue_allocated_gpus": next((_amount(used[name]) for name in sorted(used) if name.endswith("/gpu")), 0.0),
        "queue_allocated_cpu_cores": _amount(used.get("cpu", "0")),
        "queue_allocated_memory_bytes": _amount(used.get("memory", "0")),
    }


def _amount(quantity: Quantity) -> float:
    try:
        return round(float(parse(quantity)), _DIGITS)
    except InvalidQuantity:
        return 0.0
