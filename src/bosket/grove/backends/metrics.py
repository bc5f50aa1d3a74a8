"""Metrics of backends: how often each is chosen, and the results of their syncs.

One set of collectors per registry, made on demand: operator and backends may share a process.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter


class BackendMetrics:
    """The collectors of one registry; see `backend_metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._choices = Counter(
            "bosket_grove_backend_choices",
            "PodGangs by the backend that was chosen for them",
            ["backend"],
            registry=registry,
        )
        self._syncs = Counter(
            "bosket_grove_backend_syncs",
            "Attempts to tell a scheduler about a PodGang, by what came of it: written, unchanged, refused, failed",
            ["backend", "outcome"],
            registry=registry,
        )

    def chosen(self, backend: str) -> None:
        self._choices.labels(backend).inc()

    def synced(self, backend: str, outcome: str) -> None:
        self._syncs.labels(backend, outcome).inc()


_by_registry: WeakKeyDictionary[CollectorRegistry, BackendMetrics] = WeakKeyDictionary()


def backend_metrics(registry: CollectorRegistry) -> BackendMetrics:
    """The collectors of `registry`: a name may be registered only once."""
    metrics = _by_registry.get(registry)
    if metrics is None:
        metrics = _by_registry[registry] = BackendMetrics(registry)
    return metrics
