"""SchedulerMetrics: metrics of cycles, by the names that KAI's dashboards know.

The loop reports each cycle that decides something: the time of the snapshot, of each step of `decide` (through a
`StepTimer`), and the result.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bosket.api.keys import DEFAULT_NODE_POOL, METRICS_NAMESPACE, NODE_POOL_LABEL
from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.metrics.fragmentation import FragmentationMetrics
from bosket.scheduler.metrics.search import SearchMetrics
from bosket.scheduler.model.decisions import Decisions, Eviction
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.reason import GangShort, OverCapacity
from bosket.scheduler.model.snapshot import Snapshot

#: Of latencies, in milliseconds: 5, 10, 20 … 2560.
BUCKETS: Final = tuple(5.0 * 2**power for power in range(10))
#: The one action that binds; others place what has to wait.
BINDING_ACTION: Final = "allocate"
PREEMPTING_ACTION: Final = "preempt"
#: As many objects of a kind are named that cycles do without.
MOST_LEFT_OUT: Final = 200


LeftOutObject = tuple[str, str, str]  #: kind, name, namespace


class QueueLabels(NamedTuple):
    """How KAI's scheduler labels what it measures of a queue."""

    name: str
    metadata_name: str
    display_name: str

    @classmethod
    def of(cls, name: str, display_name: str) -> QueueLabels:
        """Without a display name the original has it empty, and its first label is the name."""
        return cls(display_name or name, name, "" if display_name == name else display_name)


QUEUE_LABELS: Final = ("queue_name", "queue_metadata_name", "queue_display_name")


class SchedulerMetrics:
    """The scheduler's collectors in one registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        configuration: Configuration | None = None,
        namespace: str = METRICS_NAMESPACE,
    ) -> None:
        """`configuration`: what the searches for victims may cost, if somebody wants to see that."""

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=namespace, registry=registry)

        self._cycle = gauge("e2e_scheduling_latency_milliseconds", "Time that the last cycle took")
        self._open = gauge("open_session_latency_milliseconds", "Time for the snapshot and the opening of the session")
        self._close = gauge("close_session_latency_milliseconds", "Time for the closing of the session")
        self._plugin = gauge("plugin_scheduling_latency_milliseconds", "Time that a plugin took", "plugin", "OnSession")
        self._action = gauge("action_scheduling_latency_milliseconds", "Time that an action took", "action")
        self._task = Histogram(
            "task_scheduling_latency_milliseconds",
            "Time from a pod's creation to the decision where it runs",
            namespace=namespace,
            buckets=BUCKETS,
            registry=registry,
        )
        self._bind = Histogram(
            "task_bind_latency_milliseconds",
            "Time that it takes to write a bind request",
            namespace=namespace,
            buckets=BUCKETS,
            registry=registry,
        )
        # They only ever grow. But the library ends the names of counters in "_total", and KAI's have no such end.
        self._scheduled = gauge("podgroups_scheduled_by_action", "Pod groups that an action placed, so far", "action")
        self._tried = gauge("podgroups_acted_on_by_action", "Pod groups that an action tried, so far", "action")
        self._binds = Counter("bind_requests", "Bind requests decided on", namespace=namespace, registry=registry)
        self._evictions = Counter(
            "pod_group_evicted_pods",
            "Pods that were evicted, by the group that they belonged to",
            ("podgroup", "namespace", "uid", "nodepool", "action"),
            namespace=namespace,
            registry=registry,
        )
        self._preemptions = gauge("total_preemption_attempts", "Jobs for which others were preempted, so far")
        self._plugin_failures = Counter(
            "bosket_scheduler_plugin_close_failures",
            "Sessions at whose end a plugin failed; decisions are the same",
            ("plugin",),
            registry=registry,
        )
        self._failures = Counter(
            "bosket_scheduler_failures",
            "Exceptions that the scheduler went on after, by where: decide, snapshot, apply, or the kind of an object",
            ("where",),
            registry=registry,
        )
        self._left_out = Gauge(
            "bosket_scheduler_left_out",
            "1 for each object or plugin that cycles do without, because it can't be read or the scheduler fails with "
            f"it; beyond {MOST_LEFT_OUT} of a kind the number of the others, without a name",
            ("kind", "object_namespace", "name"),
            registry=registry,
        )
        self._search_seconds = Gauge(
            "bosket_scheduler_search_seconds", "CPU time that the last search for victims took", registry=registry
        )
        self._findings = Counter(
            "bosket_scheduler_search_findings",
            "Jobs that searches found room for: applied as found, checked once more because the cluster had changed "
            "since, or dropped for that",
            ("result",),
            registry=registry,
        )
        self._shown_left_out: frozenset[LeftOutObject] = frozenset()
        self._searches = SearchMetrics(registry, namespace)
        if configuration is not None:
            self.configured(configuration)
        self._shares = _FairShares(namespace)
        registry.register(self._shares)
        self._fragmentation = FragmentationMetrics()
        registry.register(self._fragmentation)

    def configured(self, configuration: Configuration) -> None:
        """What the scheduler follows from now on."""
        self._searches.show_budgets(configuration)

    def snapshot_taken(self, seconds: float) -> None:
        """A cycle begins. The snapshot is counted with the opening of the session, as KAI does."""
        self._open.set(seconds * 1000)

    @contextmanager
    def watch(self, step: str, name: str) -> Iterator[None]:
        """For `decide`: measures one step."""
        started = time.perf_counter()
        yield
        milliseconds = (time.perf_counter() - started) * 1000
        match step:
            case "open":
                self._open.inc(milliseconds)
            case "plugin":
                self._plugin.labels(name, "OnSessionOpen").set(milliseconds)
            case "plugin close":
                self._plugin.labels(name, "OnSessionClose").set(milliseconds)
            case "action":
                self._action.labels(name).set(milliseconds)
            case "action again":
                self._action.labels(name).inc(milliseconds)
            case "search":
                self._searches.turn_took(milliseconds / 1000)
            case "close":
                self._close.set(milliseconds)

    def requested(self, seconds: float) -> None:
        """A bind request is written."""
        self._bind.observe(seconds * 1000)

    def evicted(self, eviction: Eviction) -> None:
        """A pod goes."""
        meta = eviction.job.group.metadata
        pool = meta.labels.get(NODE_POOL_LABEL) or DEFAULT_NODE_POOL
        self._evictions.labels(meta.name, meta.namespace, meta.uid, pool, eviction.action).inc()

    def failed(self, where: str) -> None:
        """The scheduler goes on after an exception."""
        self._failures.labels(where).inc()

    def left_out(self, objects: Iterable[LeftOutObject]) -> None:
        """Shows every object and plugin that the last cycle left out."""
        known = frozenset(objects)
        if known == self._shown_left_out:
            return
        self._shown_left_out = known
        self._left_out.clear()
        # By kind: users make pods, and decide neither how many series there are nor which nodes are named.
        for kind, group in groupby(sorted(known), key=itemgetter(0)):
            listed = list(group)
            for _, name, namespace in listed[:MOST_LEFT_OUT]:
                self._left_out.labels(kind, namespace, name).set(1)
            if others := listed[MOST_LEFT_OUT:]:
                self._left_out.labels(kind, "", "").set(len(others))

    def decided(self, snapshot: Snapshot, decisions: Decisions, seconds: float) -> None:
        """A cycle has ended."""
        self._cycle.set(seconds * 1000)
        self._binds.inc(len(decisions.lasting_binds))
        for bind in decisions.lasting_binds:
            self._task.observe(max(0.0, snapshot.now - bind.task.created) * 1000)
        placed = {bind.job.key for bind in decisions.binds}
        placed |= {each.job.key for each in decisions.pipelined if each.action == BINDING_ACTION}
        self._scheduled.labels(BINDING_ACTION).inc(len(placed))
        self.evictions_decided(decisions)
        failed = {
            each.job.key
            for each in decisions.waiting
            if any(isinstance(reason, GangShort | OverCapacity) for reason in each.reasons)
        }
        self._tried.labels(BINDING_ACTION).inc(len(failed | placed))
        self._count_searches(decisions)
        for plugin, _ in decisions.plugin_failures:
            self._plugin_failures.labels(plugin).inc()
        self._shares.update(snapshot.queues, decisions.fair_share)
        self._fragmentation.update(snapshot)

    def evictions_decided(self, decisions: Decisions) -> None:
        """Jobs for which others are evicted."""
        placed: dict[str, set[ObjectKey]] = {}
        for eviction in decisions.evictions:
            if eviction.preemptor is not None:
                placed.setdefault(eviction.action, set()).add(eviction.preemptor.key)
        for action, jobs in placed.items():
            self._scheduled.labels(action).inc(len(jobs))
        self._preemptions.inc(len(placed.get(PREEMPTING_ACTION, ())))

    def searched(self, decisions: Decisions, seconds: float) -> None:
        """A search beside the cycles has ended."""
        self._search_seconds.set(seconds)
        self._count_searches(decisions)

    def findings(self, result: Literal["applied", "checked", "dropped"], jobs: int) -> None:
        """What became of so many jobs that a search found room for."""
        self._findings.labels(result).inc(jobs)

    def _count_searches(self, decisions: Decisions) -> None:
        for action, jobs_tried in decisions.searches.tried.items():
            self._tried.labels(action).inc(jobs_tried)
        self._searches.add(decisions.searches)


class _FairShares(Collector):
    """What each queue may count on. Made when somebody asks: with thousands of queues it would cost every cycle."""

    #: name, text, and how many of the snapshot's units are one of the metric's
    _METRICS: Final = (
        ("gpu", "Fair share of a queue, in GPUs", 1.0),
        ("cpu_cores", "Fair share of a queue, in CPU cores", 1e3),
        ("memory_gb", "Fair share of a queue, in gigabytes of memory", 1e9),
    )

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._queues: QueueTree | None = None
        self._shares: Mapping[str, tuple[float, ...]] = {}

    def update(self, queues: QueueTree, shares: Mapping[str, tuple[float, ...]]) -> None:
        self._queues, self._shares = queues, shares

    def collect(self) -> Iterator[GaugeMetricFamily]:
        queues = self._queues.queues if self._queues is not None else ()
        for index, (name, text, unit) in enumerate(self._METRICS):
            family = GaugeMetricFamily(f"{self._namespace}_queue_fair_share_{name}", text, labels=QUEUE_LABELS)
            for queue in queues:
                share = self._shares.get(queue.name)
                if share is not None and math.isfinite(share[index]):  # else nobody divided anything
                    family.add_metric(QueueLabels.of(queue.name, queue.display_name), share[index] / unit)
            yield family
