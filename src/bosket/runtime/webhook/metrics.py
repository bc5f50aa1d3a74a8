"""What the webhooks report about themselves, by the names that controller-runtime gives them; and refusals, by ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bosket.runtime.clock import Clock
from bosket.runtime.metrics import once_per_registry


class WebhookMetrics:
    """Requests by webhook (its path)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Requests by webhook and HTTP code",
            ("webhook", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "controller_runtime_webhook_latency_seconds", "Time to answer", ("webhook",), registry=registry
        )
        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight", "Requests being answered", ("webhook",), registry=registry
        )
        self._refusals = Counter(
            "bosket_admission_refusals_total", "Objects that were refused", ("webhook",), registry=registry
        )
        self._expiry = Gauge(
            "bosket_admission_certificate_expiry_timestamp_seconds",
            "When the certificate that is shown ends",
            ("service",),
            registry=registry,
        )
        self._upkeep_failures = Counter(
            "bosket_admission_upkeep_failures_total",
            "Rounds in which certificate or webhook configurations couldn't be kept up",
            ("service",),
            registry=registry,
        )

    @contextmanager
    def answering(self, webhook: str, clock: Clock) -> Iterator[None]:
        started = clock.monotonic()
        in_flight = self._in_flight.labels(webhook)
        in_flight.inc()
        try:
            yield
        finally:
            in_flight.dec()
            self._seconds.labels(webhook).observe(clock.monotonic() - started)

    def answered(self, webhook: str, code: int) -> None:
        self._requests.labels(webhook, str(code)).inc()

    def refused(self, webhook: str) -> None:
        self._refusals.labels(webhook).inc()

    def certificate_expires(self, service: str, timestamp: float) -> None:
        self._expiry.labels(service).set(timestamp)

    def upkeep_failed(self, service: str) -> None:
        self._upkeep_failures.labels(service).inc()


webhook_metrics: Final = once_per_registry(WebhookMetrics)
