"""Time-based fair share with a real Prometheus: shares follow the formula, and an outage stops nobody."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from bosket.api.core import Pod
from bosket.api.kai import UsageDBConfig, UsageParams
from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.time import parse_time
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.usage_parameters import parameters_from
from bosket.scheduler.options import Options
from bosket.scheduler.usage.builtin import BuiltinUsage
from bosket.scheduler.usage.history import Sample
from bosket.scheduler.usage.prometheus import connect
from tests.controlplane.prometheus import Prometheus
from tests.e2e.cluster import Cluster
from tests.e2e.manifest import pod

pytestmark = pytest.mark.real

HELD = ("kai_queue_allocated_gpus", "kai_queue_allocated_cpu_cores", "kai_queue_allocated_memory_bytes")
CAPACITY = "kube_node_status_capacity"
RESOURCES = ("nvidia_com_gpu", "cpu", "memory")


def open_metrics(samples: Iterable[Sample]) -> str:
    """As the queue controller and kube-state-metrics would have shown them at the time of each sample."""
    samples = list(samples)
    lines = []
    for place, metric in enumerate(HELD):
        lines.append(f"# TYPE {metric} gauge")
        for sample in samples:
            for queue, amounts in sample.held.items():
                lines.append(f'{metric}{{queue_name="{queue}"}} {amounts[place]} {sample.time:.3f}')
    lines.append(f"# TYPE {CAPACITY} gauge")
    for place, resource in enumerate(RESOURCES):
        for sample in samples:  # on two nodes
            for node in ("x", "y"):
                half = sample.capacity[place] / 2
                lines.append(f'{CAPACITY}{{resource="{resource}",node="{node}"}} {half} {sample.time:.3f}')
    return "\n".join([*lines, "# EOF", ""])


def each_minute(begin: float, end: float, capacity: tuple[float, float, float], **gpus: float) -> Iterator[Sample]:
    at = begin
    while at < end:
        yield Sample(at, capacity, {queue: (held, 0.0, 0.0) for queue, held in gpus.items()})
        at += 60


# The built-in store is held to what a real Prometheus says of the same history.

SATURDAY = parse_time("2026-01-03T00:00:00Z")
NOW = parse_time("2026-01-05T09:41:12.345Z")  # a Monday


def two_days_with_gaps() -> list[Sample]:
    """Every minute, with jitter; queues come and go, nodes do, and now and then nobody looks for a while."""
    chance = random.Random(5)
    samples: list[Sample] = []
    at, held, capacity = SATURDAY, {"a": (4.0, 8.0, 1e9), "b": (0.0, 1.0, 0.0)}, (16.0, 64.0, 4e11)
    while at < NOW:
        samples.append(Sample(round(at, 3), capacity, dict(held)))
        at += 60 + chance.uniform(-2, 2) + (chance.random() < 0.002) * chance.uniform(60, 3000)
        if chance.random() < 0.02:
            gpus, cores, memory = chance.randint(0, 8), chance.randint(0, 32), chance.random() * 1e11
            held[chance.choice("abc")] = (float(gpus), float(cores), memory)
        if chance.random() < 0.005:
            capacity = (chance.randint(8, 32) * 1.0, 64.0, 4e11)
    return samples


@pytest.fixture(scope="module")
def old_history(prometheus_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    history = open_metrics(two_days_with_gaps())
    with Prometheus(prometheus_programs, tmp_path_factory.mktemp("old"), history) as prometheus:
        yield prometheus


@pytest.mark.parametrize("half_life", [None, "3h"])
@pytest.mark.parametrize(
    "window",
    [
        {"windowSize": "1d"},
        {"windowSize": "90m", "extraParams": {"queryResolution": "15s"}},
        {"windowType": "tumbling", "windowSize": "7h", "tumblingWindowStartTime": "2026-01-01T00:00:00Z"},
        {"windowType": "cron", "cronString": "30 6 * * sun"},
    ],
    ids=["sliding", "sliding-fine", "tumbling", "cron"],
)
async def test_the_built_in_store_says_what_prometheus_says(
    old_history: Prometheus, window: Mapping[str, str], half_life: str | None
) -> None:
    parameters = parameters_from(UsageParams(**window, halfLifePeriod=half_life))  # type: ignore[arg-type]
    builtin, prometheus = BuiltinUsage(parameters), connect(old_history.url, parameters)
    try:
        for sample in two_days_with_gaps():
            await builtin.record(sample)
        ours, theirs = (await builtin.fetch(NOW)).parts, (await prometheus.fetch(NOW)).parts
    finally:
        await prometheus.aclose()
    assert ours.keys() == theirs.keys() == {"a", "b", "c"}
    for queue, parts in theirs.items():
        assert ours[queue] == pytest.approx(parts, rel=1e-9)
        assert max(parts) > 0.01


# The whole: a Prometheus with a past, a cluster with two queues.


async def test_shares_follow_the_formula_and_an_outage_stops_nobody(
    cluster: Cluster, prometheus_programs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a day with eight of ten GPUs for a and two for b: with k = 1 they pull with 0.5 + (0.5 − 0.8) and 0.8."""
    await cluster.add_nodes(1, gpus=10)
    a, b = await cluster.add_queue(), await cluster.add_queue()
    now = time.time()
    past = each_minute(now - 14 * 3600, now, (10.0, 64.0, 5e11), **{a: 8.0, b: 2.0})
    with Prometheus(prometheus_programs, tmp_path, open_metrics(past)) as prometheus:
        params = UsageParams(windowSize="12h", halfLifePeriod="6h", fetchInterval="500ms", stalenessPeriod="2s")
        config = UsageDBConfig(clientType="prometheus", connectionString=prometheus.url, usageParams=params)
        await cluster.start_services("podgrouper", "binder")
        for name, queue in (("of-a", a), ("of-b", b)):  # each wants the whole node, and a was first
            await cluster.client.create(pod(name, queue=queue, gpus=10), cluster.namespace)
        await cluster.eventually(lambda: _grouped(cluster, 2))
        await cluster.start_services("scheduler", options=Options(configuration=Configuration(usage_db=config)))

        await cluster.eventually(lambda: _runs(cluster, "of-b"))
        assert _of_queues(cluster, "queue_gpu_usage", a, b) == pytest.approx([0.8, 0.2])
        assert _of_queues(cluster, "queue_fair_share_gpu", a, b) == [2.0, 8.0]
        assert not await _runs(cluster, "of-a")
        await cluster.eventually(lambda: _age(cluster, below=2))

        prometheus.stop()
        await cluster.eventually(lambda: _age(cluster, above=3))
        assert "what is known of the use of queues is stale; it goes on to count" in caplog.messages
        await cluster.client.create(pod("late", queue=a), cluster.namespace)
        await cluster.eventually(lambda: _runs(cluster, "late"))
        assert _of_queues(cluster, "queue_fair_share_gpu", a, b) == [2.0, 8.0]

        prometheus.start()
        await cluster.eventually(lambda: _age(cluster, below=2))


async def _grouped(cluster: Cluster, count: int) -> bool:
    pods = (await cluster.client.list(Pod, cluster.namespace)).items
    return sum(POD_GROUP_ANNOTATION in each.metadata.annotations for each in pods) == count


async def _runs(cluster: Cluster, name: str) -> bool:
    return (await cluster.client.get(Pod, name, cluster.namespace)).status.phase == "Running"


async def _age(cluster: Cluster, *, above: float = 0.0, below: float = math.inf) -> bool:
    age = cluster.metrics["scheduler"].get_sample_value("kai_usage_age_seconds")
    return age is not None and above < age < below


def _of_queues(cluster: Cluster, metric: str, *queues: str) -> list[float | None]:
    registry = cluster.metrics["scheduler"]
    labels = [{"queue_name": name, "queue_metadata_name": name, "queue_display_name": ""} for name in queues]
    return [registry.get_sample_value(f"kai_{metric}", each) for each in labels]
