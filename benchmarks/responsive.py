"""Does the scheduler go on answering and placing while it searches for victims? On an embedded cluster, live.

`mixed`: contended clusters of 100 and 500 nodes as they come in practice (`perf/nasty.py`), with two schedulers that
hold one lease between them: are leases lost, and when is bound what had room from the start? `search`: a cluster in
which a plugin makes every search take a minute: leases, probes, and how long a new pod with room takes to be bound
meanwhile. Times are elapsed ones, by watches; on a busy machine they are longer.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.process import cpu_seconds, free_port, process, until_ready, until_serving
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import workload
from bosket.api.coordination import Lease
from bosket.api.core import Node, Pod
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.time import parse_time
from bosket.embedded.node import SIMULATED_ANNOTATION
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists
from bosket.kube.kubeconfig import connect
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.recording.recorded import Recorded, load
from bosket.testing.build import node, pod, pod_group, queue

NAMESPACE = "default"
SYSTEM = "kai-scheduler"
LISTS = ("priorityClasses", "queues", "topologies", "nodes", "podGroups", "pods")
#: Requests under way at once while a cluster is being filled.
WRITERS = 16
PATIENCE_SECONDS = 600.0
#: What is promised of a search that takes a minute, and of `mixed`.
PROBE_MS, BOUND_MS, FIRST_BINDS_SECONDS = 100.0, 200.0, 2.0
#: How long the plugin makes one search take.
SEARCH_SECONDS = 60
NODES = 500
#: How long the larger one of the contended clusters is watched at most.
LARGE_MINUTES = 2.0

COLUMNS = (
    Column("scene", "scene"),
    Column("watched_s", "watched", number(unit=" s")),
    Column("lost", "leases lost", number()),
    Column("longest_renewal_s", "longest between renewals", number(1, " s")),
    Column("probe_p99_ms", "/healthz p99", number(unit=" ms")),
    Column("placed", "pods with room", number()),
    Column("placed_p50_ms", "bound p50", number(unit=" ms")),
    Column("placed_p99_ms", "p99", number(unit=" ms")),
    Column("evicted", "evicted", number()),
    Column("cpu_s", "scheduler CPU", number(1, " s")),
)


def run(minutes: float = 10.0, nodes: int = 100) -> Report:
    report = Report("Placing, leases and probes while victims are searched for", COLUMNS)
    asyncio.run(_run(report, minutes, nodes))
    return report


async def _run(report: Report, minutes: float, nodes: int) -> None:
    progress(f"mixed, {nodes} nodes, two schedulers")
    await _mixed(report, nodes, minutes * 60)
    progress(f"mixed, {NODES} nodes, two schedulers")
    await _mixed(report, NODES, min(minutes, LARGE_MINUTES) * 60)
    progress(f"a search of {SEARCH_SECONDS} s, {NODES} nodes")
    await _long_search(report)


# ── the cluster ──


@dataclass
class Live:
    """An embedded cluster, and services beside it."""

    client: Client
    folder: Path
    kubeconfig: Path
    stack: AsyncExitStack
    ports: dict[str, int] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)

    async def start(self, name: str, service: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.ports[name] = port = free_port()
        started = await self.stack.enter_async_context(
            process(
                "run", service, f"--kubeconfig={self.kubeconfig}", f"--listen=127.0.0.1:{port}",
                "--plugin-server-port=0", *arguments, log=self.folder / f"{name}.log", environment=environment,
            )
        )  # fmt: skip
        self.pids[name] = started.pid

    async def ready(self, *names: str) -> None:
        for name in names:
            await until_serving(self.ports[name])

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@asynccontextmanager
async def live() -> AsyncIterator[Live]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bosket-responsive-")))
        kubeconfig = folder / "kubeconfig"
        await stack.enter_async_context(
            # Admission completes pods that share GPUs: without it they can't be bound.
            process("up", "--nodes=1", f"--kubeconfig={kubeconfig}", "--services=admission", log=folder / "server.log")
        )
        await until_ready(folder / "server.log")
        client = connect(kubeconfig)
        stack.push_async_callback(client.aclose)
        await client.delete(Node, "node-0000") if await _has_node(client) else None
        yield Live(client, folder, kubeconfig, stack)


async def _has_node(client: Client) -> bool:
    return any(each.metadata.name == "node-0000" for each in (await client.list(Node)).items)


async def create_all(client: Client, objects: Iterable[KubeObject]) -> None:
    waiting = iter(objects)

    async def work() -> None:
        for each in waiting:
            with suppress(AlreadyExists):
                await client.create(each)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(work())


def as_new(obj: Any) -> Any:
    """The object as somebody would create it; nodes are simulated ones."""
    meta = obj.metadata
    annotations = {**meta.annotations, SIMULATED_ANNOTATION: "true"} if isinstance(obj, Node) else meta.annotations
    fresh = ObjectMeta(name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=annotations)
    return msgspec.structs.replace(obj, metadata=fresh)


# ── what is watched ──


class Watched:
    """When pods were created and bound, which are gone, how leases are renewed, how quickly probes are answered."""

    def __init__(self, cluster: Live) -> None:
        self._cluster = cluster
        self.began = time.monotonic()
        self.bound_at: dict[str, float] = {}
        self.deleted: set[str] = set()
        self.probes_ms: list[float] = []
        self.renewals: dict[str, list[float]] = {}
        self.transitions = 0

    @asynccontextmanager
    async def watching(self, *probed: str) -> AsyncIterator[None]:
        page = await self._cluster.client.list(Pod, NAMESPACE)
        self.bound_at = {each.metadata.name: 0.0 for each in page.items if each.spec.nodeName}
        self.began = time.monotonic()
        tasks = [asyncio.create_task(self._pods(page.resource_version)), asyncio.create_task(self._lease())]
        tasks += [asyncio.create_task(self._probe(name)) for name in probed]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pods(self, version: str) -> None:
        async for event in self._cluster.client.watch(Pod, NAMESPACE, resource_version=version):
            if event.object is None:
                continue
            name = event.object.metadata.name
            if event.object.metadata.deletionTimestamp is not None:
                self.deleted.add(name)
            if event.object.spec.nodeName and name not in self.bound_at:
                self.bound_at[name] = time.monotonic()

    async def _lease(self) -> None:
        first: int | None = None
        while True:
            for lease in (await self._cluster.client.list(Lease, SYSTEM)).items:
                if lease.metadata.name != SCHEDULER_NAME:
                    continue
                changes = lease.spec.leaseTransitions or 0
                first = changes if first is None else first
                self.transitions = changes - first
                renewed = parse_time(lease.spec.renewTime) if lease.spec.renewTime else 0.0
                seen = self.renewals.setdefault(lease.metadata.name, [])
                if not seen or seen[-1] != renewed:
                    seen.append(renewed)
            await asyncio.sleep(0.5)

    async def _probe(self, name: str) -> None:
        url = f"http://127.0.0.1:{self._cluster.ports[name]}/healthz"
        while True:
            began = time.monotonic()
            await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read())
            self.probes_ms.append((time.monotonic() - began) * 1e3)
            await asyncio.sleep(0.1)

    def longest_renewal(self) -> float | None:
        gaps = [b - a for seen in self.renewals.values() for a, b in itertools.pairwise(seen)]
        return max(gaps, default=None)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0.02)


def percentile(values: Iterable[float], part: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else None


# ── scenes ──


async def _mixed(report: Report, nodes: int, seconds: float) -> None:
    with workload("mixed", "nasty.py", n=nodes, seed=7, pending=4 * nodes) as file:
        recorded = load(file)
    async with live() as cluster:
        for name in LISTS:
            await create_all(cluster.client, map(as_new, recorded.objects.get(name, ())))
        wanted = await _with_room(cluster.client, recorded)
        await cluster.start("binder", "binder")
        await cluster.ready("binder")
        watched = Watched(cluster)
        schedulers = ("scheduler-1", "scheduler-2")
        for name in schedulers:
            await cluster.start(name, "scheduler")
        await cluster.ready(*schedulers)
        async with watched.watching(*schedulers):
            await asyncio.sleep(seconds)
        missing = len(wanted - watched.bound_at.keys())
        report.expect(not missing, f"mixed: {missing} of {len(wanted)} pods that had room were never bound")
        lost = sum(cluster.log(name).count("lost the lease") for name in schedulers)
        bound = [(at - watched.began) * 1e3 for name, at in watched.bound_at.items() if name in wanted and at]
        cpu = sum(cpu_seconds(cluster.pids[name]) for name in schedulers)
        slowest = percentile(bound, 1.0) or 0.0
        _row(report, f"mixed, {nodes} nodes, {4 * nodes} jobs", watched, bound, lost=lost, cpu=cpu, seconds=seconds)
        within = f"mixed with {nodes} nodes: what had room was bound {slowest / 1e3:.1f} s after the start"
        report.expect(slowest <= FIRST_BINDS_SECONDS * 1e3, f"{within}, not {FIRST_BINDS_SECONDS:.0f}")


async def _with_room(client: Client, recorded: Recorded) -> set[str]:
    """Pods that a scheduler places at once, and that no search takes the room from.

    Asked of the cluster as it was created: jobs go by their age there.
    """
    objects = {
        name: tuple((await client.list(type(each[0]))).items)
        for name in LISTS
        if (each := recorded.objects.get(name, ()))
    }
    configuration, _ = known_part(recorded.configuration)
    snapshot = replace(recorded, objects=objects).snapshot(time.time())
    return {bind.task.key.name for bind in decide(snapshot, configuration).lasting_binds}


PLUGIN = '''
import time

class Spin:
    """Makes the first search of reclaim take so many seconds more."""

    spun = False

    def __init__(self, arguments):
        self._seconds = float(arguments["seconds"])

    def open(self, session):
        session.extensions.reclaim_rights.add(self._spin)

    def _spin(self, job):
        until = time.monotonic() + self._seconds
        while not Spin.spun and time.monotonic() < until:
            sum(range(1000))
        Spin.spun = True
        return True
'''


def install_plugin(folder: Path) -> dict[str, str]:
    """What pip leaves of an installed package; the environment of processes that find it."""
    (folder / "bosket_spin.py").write_text(PLUGIN)
    info = folder / "bosket_spin-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bosket-spin\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text("[bosket.scheduler.plugins]\nspin = bosket_spin:Spin\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


CONFIGURATION = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - {{name: predicates}}
  - {{name: proportion}}
  - {{name: priority}}
  - {{name: elastic}}
  - {{name: nodeplacement, arguments: {{cpu: binpack, gpu: binpack}}}}
  - {{name: sg-nodelocalgreedy}}
  - {{name: sg-multinodegang}}
  - {{name: spin, arguments: {{seconds: "{seconds}"}}}}
"""


async def _long_search(report: Report) -> None:
    async with live() as cluster:
        client = cluster.client
        # One rack is full of a queue that has no right to it; another queue waits for the rack. The rest is free.
        objects: list[Any] = [queue("greedy", quota=0), queue("deserving", quota=8 * NODES)]
        objects += [node(f"n{number:03}", gpus=8, rack="full" if number < 4 else "free") for number in range(NODES)]
        for number in range(4):
            objects.append(pod_group(f"old-{number}", min_member=1, queue="greedy", namespace=NAMESPACE))
            objects.append(pod(f"old-{number}").gpu(8).of_group(f"old-{number}").running_on(f"n{number:03}").build())
        objects.append(pod_group("wanting", min_member=1, queue="deserving", namespace=NAMESPACE))
        objects.append(pod("wanting").gpu(8).of_group("wanting").only_on("rack", "full").build())
        await create_all(client, map(as_new, objects))
        configuration = cluster.folder / "config.yaml"
        configuration.write_text(CONFIGURATION.format(seconds=SEARCH_SECONDS))
        for service in ("binder", "podgrouper"):
            await cluster.start(service, service)
        environment = install_plugin(cluster.folder)
        await cluster.start("scheduler", "scheduler", f"--scheduler-config={configuration}", environment=environment)
        await cluster.ready("binder", "podgrouper", "scheduler")
        watched, created = Watched(cluster), dict[str, float]()
        async with watched.watching("scheduler"):
            while time.monotonic() - watched.began < SEARCH_SECONDS + 15:
                name = f"new-{len(created):04}"
                created[name] = time.monotonic()
                await client.create(as_new(_waiting_pod(name)))
                await asyncio.sleep(0.25)
                if watched.deleted:
                    break
            await watched.until(lambda: created.keys() <= watched.bound_at.keys())
        lost = cluster.log("scheduler").count("lost the lease")
        bound = [(watched.bound_at[name] - at) * 1e3 for name, at in created.items()]
        took = time.monotonic() - watched.began
        cpu = cpu_seconds(cluster.pids["scheduler"])
        _row(report, f"a search of {SEARCH_SECONDS} s", watched, bound, lost=lost, cpu=cpu, seconds=took)
        late, probe = percentile(bound, 0.99) or 0.0, percentile(watched.probes_ms, 0.99) or 0.0
        report.expect(late <= BOUND_MS, f"during the search pods were bound in {late:.0f} ms (p99), not {BOUND_MS:.0f}")
        report.expect(probe <= PROBE_MS, f"during the search /healthz took {probe:.0f} ms (p99), not {PROBE_MS:.0f}")
        report.expect(bool(watched.deleted), "nobody was evicted after the search")


def _waiting_pod(name: str) -> Pod:
    """A pod without an owner, which the pod grouper makes a group of."""
    return pod(name).gpu(1).label("kai.scheduler/queue", "deserving").only_on("rack", "free").build()


def _row(
    report: Report, scene: str, watched: Watched, bound: list[float], *, lost: int, cpu: float, seconds: float
) -> None:
    report.rows.append(
        {
            "scene": scene,
            "watched_s": seconds,
            "lost": lost,
            "longest_renewal_s": watched.longest_renewal(),
            "probe_p99_ms": percentile(watched.probes_ms, 0.99),
            "placed": len(bound),
            "placed_p50_ms": percentile(bound, 0.5),
            "placed_p99_ms": percentile(bound, 0.99),
            "evicted": len(watched.deleted),
            "cpu_s": cpu,
        }
    )
    report.expect(lost == 0, f"{scene}: {lost} leases were lost")
