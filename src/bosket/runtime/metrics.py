"""Prometheus metrics of controllers and their queues, by the names that controller-runtime gives them.

Every process (and every test) has a registry of its own, so the collectors are made once per registry, on demand.
Dashboards made for operators in Go read them without a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bosket.kube.codec import MALFORMED
from bosket.kube.reflector import RELISTS
from bosket.kube.store import HANDLER_ERRORS

M = TypeVar("M")

_TIME_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


#: What a reconciliation comes to; `cancelled`: the process stopped meanwhile.
_RESULTS: Final = ("success", "requeue_after", "error", "cancelled")


class QueueMetrics:
    """What one work queue reports about itself."""

    def __init__(self, depth: Gauge, adds: Counter, retries: Counter, waited: Histogram, worked: Histogram) -> None:
        self._depth = depth
        self._adds = adds
        self._retries = retries
        self._waited = waited
        self._worked = worked

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def taken(self, depth: int, waited_seconds: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited_seconds)

    def done(self, worked_seconds: float) -> None:
        self._worked.observe(worked_seconds)

    def retried(self) -> None:
        self._retries.inc()


class ControllerMetrics:
    """What one controller reports about its reconciliations."""

    def __init__(self, name: str, results: Counter, errors: Counter, seconds: Histogram, active: Gauge) -> None:
        self._results = {result: results.labels(name, result) for result in _RESULTS}
        self._errors = errors.labels(name)
        self._seconds = seconds.labels(name)
        self._active = active.labels(name)

    def started(self) -> None:
        self._active.inc()

    def finished(self, result: str, seconds: float) -> None:
        """`result`: one of `_RESULTS`."""
        self._active.dec()
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()


class RuntimeMetrics:
    """The collectors of this layer in one registry; see `runtime_metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        for collector in (MALFORMED, RELISTS, HANDLER_ERRORS):  # the layer below counts, and leaves the showing to us
            registry.register(collector)
        self._reconcile_total = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by controller and result",
            ["controller", "result"],
            registry=registry,
        )
        self._reconcile_errors = Counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciliations that failed, by controller",
            ["controller"],
            registry=registry,
        )
        self._reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time that a reconciliation takes, by controller",
            ["controller"],
            buckets=_TIME_BUCKETS,
            registry=registry,
        )
        self._active_workers = Gauge(
            "controller_runtime_active_workers",
            "Workers that are reconciling now, by controller",
            ["controller"],
            registry=registry,
        )
        self._queue_depth = Gauge(
            "workqueue_depth", "Keys that wait in the queue, by queue name", ["name"], registry=registry
        )
        self._queue_adds = Counter(
            "workqueue_adds_total", "Keys added to the queue, by queue name", ["name"], registry=registry
        )
        self._queue_retries = Counter(
            "workqueue_retries_total", "Keys added again after a failure, by queue name", ["name"], registry=registry
        )
        self._queue_waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Time that a key waits in the queue, by queue name",
            ["name"],
            buckets=_TIME_BUCKETS,
            registry=registry,
        )
        self._queue_worked = Histogram(
            "workqueue_work_duration_seconds",
            "Time that a key from the queue is in hand, by queue name",
            ["name"],
            buckets=_TIME_BUCKETS,
            registry=registry,
        )
        self._most_workers = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers that there are, by controller",
            ["controller"],
            registry=registry,
        )
        self._service_restarts = Counter(
            "bosket_service_restarts_total",
            "Services that failed and were started again",
            ["service"],
            registry=registry,
        )
        self._leader = Gauge(
            "leader_election_master_status", "1 while this process holds the lease, else 0", ["name"], registry=registry
        )
        self._events = Counter(
            "bosket_events_total",
            "Events by what became of them: created, aggregated, dropped, failed",
            ["outcome"],
            registry=registry,
        )

    def controller(self, name: str, workers: int = 1) -> ControllerMetrics:
        self._most_workers.labels(name).set(workers)
        return ControllerMetrics(
            name, self._reconcile_total, self._reconcile_errors, self._reconcile_seconds, self._active_workers
        )

    def queue(self, name: str) -> QueueMetrics:
        return QueueMetrics(
            self._queue_depth.labels(name),
            self._queue_adds.labels(name),
            self._queue_retries.labels(name),
            self._queue_waited.labels(name),
            self._queue_worked.labels(name),
        )

    def service_restarted(self, service: str) -> None:
        self._service_restarts.labels(service).inc()

    def leading(self, lease: str, leads: bool) -> None:
        self._leader.labels(lease).set(1 if leads else 0)

    def event(self, outcome: str) -> None:
        self._events.labels(outcome).inc()


def once_per_registry(make: Callable[[CollectorRegistry], M]) -> Callable[[CollectorRegistry], M]:
    """Gives a registry's collectors, made when first asked for: a name may be registered only once."""
    made: WeakKeyDictionary[CollectorRegistry, M] = WeakKeyDictionary()

    def of(registry: CollectorRegistry) -> M:
        found = made.get(registry)
        if found is None:
            found = made[registry] = make(registry)
        return found

    return of


runtime_metrics: Final = once_per_registry(RuntimeMetrics)
