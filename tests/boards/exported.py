"""What Bosket's services export, for whoever checks names: all collectors, without a cluster."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase

from bosket.apiserver import ApiServer
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.metrics import runtime_metrics
from bosket.runtime.rest_metrics import MeasuredTransport
from bosket.runtime.service import Environment
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.metrics.cycle import SchedulerMetrics
from bosket.scheduler.usage.metrics import UsageMetrics
from bosket.services.queue.metrics import QueueMetrics


class Exported(NamedTuple):
    """One metric."""

    type: str
    labels: tuple[str, ...]
    help: str


def registry() -> CollectorRegistry:
    """With the collectors of all services."""
    made = CollectorRegistry()
    clock = SystemClock()
    client = Client(MeasuredTransport(ApiServer(clock=clock).transport(), made), clock=clock)
    Environment(
        client=client, informers=Informers(client), clock=clock, events=EventRecorder(client, clock, "x"), metrics=made
    )
    runtime_metrics(made).controller("c")
    SchedulerMetrics(made, Configuration())
    UsageMetrics(made, clock.now, list)
    QueueMetrics(made, "kai", {}, {})
    ProcessCollector(registry=made)
    return made


def exported(of: CollectorRegistry) -> dict[str, Exported]:
    """Metrics by name; of counters, by the name that their samples have."""
    found = {}
    for collector in set(of._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            assert collector._type is not None, "a metric that is registered has a type"
            name = f"{collector._name}_total" if collector._type == "counter" else collector._name
            found[name] = Exported(collector._type, collector._labelnames, collector._documentation)
        else:
            for family in collector.collect():
                name = f"{family.name}_total" if family.type == "counter" else family.name
                found[name] = Exported(family.type, tuple(getattr(family, "_labelnames", ())), family.documentation)
    return found
