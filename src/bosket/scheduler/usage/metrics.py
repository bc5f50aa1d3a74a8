"""Metrics of the usage database: by KAI's names where KAI has them, and the age of the last answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bosket.api.keys import METRICS_NAMESPACE
from bosket.scheduler.metrics.cycle import BUCKETS, QUEUE_LABELS, QueueLabels
from bosket.scheduler.model.usage import NO_USAGE, Usage


class UsageMetrics(Collector):
    """Gauges are made when somebody asks, so that an age is the age of that moment."""

    _RESOURCES: Final = ("gpu", "cpu", "memory")

    def __init__(
        self,
        registry: CollectorRegistry,
        now: Callable[[], float],
        queues: Callable[[], Iterable[QueueLabels]],
        namespace: str = METRICS_NAMESPACE,
    ) -> None:
        self._now, self._queues, self._namespace = now, queues, namespace
        self._registry, self._usage = registry, NO_USAGE
        self._latency = Histogram(
            "usage_query_latency_milliseconds",
            "Time that an answer about what queues used took",
            namespace=namespace,
            buckets=BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "usage_query_failures", "Questions about what queues used that had no answer", namespace=namespace,
            registry=registry,
        )  # fmt: skip
        registry.register(self)

    def withdraw(self) -> None:
        """Nothing is measured any more: another usage database takes this one's place."""
        for each in (self._latency, self._failures, self):
            self._registry.unregister(each)

    def fetched(self, usage: Usage, seconds: float) -> None:
        self._usage = usage
        self._latency.observe(seconds * 1000)

    def failed(self) -> None:
        self._failures.inc()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        age = GaugeMetricFamily(
            f"{self._namespace}_usage_age_seconds",
            "Age of what is known about the use of queues; absent while nothing is",
        )
        if self._usage.as_of is not None:
            age.add_metric((), max(0.0, self._now() - self._usage.as_of))
        yield age
        queues = list(self._queues()) if self._usage.as_of is not None else []
        for index, resource in enumerate(self._RESOURCES):
            text = f"Part of the cluster's {resource} that a queue used in the window; 1 is all of it, all the time"
            family = GaugeMetricFamily(f"{self._namespace}_queue_{resource}_usage", text, labels=QUEUE_LABELS)
            for labels in queues:
                family.add_metric(labels, self._usage.of(labels.metadata_name)[index])
            yield family
