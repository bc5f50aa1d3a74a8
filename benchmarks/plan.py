"""Does `bosket plan` say what the scheduler then does? Random cases on an embedded cluster, in virtual time.

Each case is a cluster of its own with random queues and work. When it has come to rest, it is read by an account that
may only read, and planned on; then the same is done for real. Compared are, when it has come to rest again: which jobs
have started, with how many pods; which wait; whose pods were evicted, and how many.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import looptime

from benchmarks.plan_scene import Manifest, Question, Scene, question, scene
from benchmarks.report import Column, Report, number, progress
from bosket.api.apps import Deployment, StatefulSet
from bosket.api.batch import Job
from bosket.api.core import Node, Pod
from bosket.api.kai import Queue
from bosket.api.object import KubeObject
from bosket.api.table import resource_for
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import Layout, NodeShape, simulated_node
from bosket.kube.client import Client
from bosket.kube.codec import untyped
from bosket.kube.informer import Informer, Informers
from bosket.runtime.clock import Clock, LoopClock
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.draft import Draft
from bosket.scheduler.answers.edits import add_nodes, delete, drain, set_queue
from bosket.scheduler.answers.plan import make_plan
from bosket.tools.expansion.manifests import Manifest as FromFile
from bosket.tools.expansion.submission import submit
from bosket.tools.live_cluster import read_cluster

CASES = 500
NAMESPACE = "default"
KINDS_ASKED = ("workload", "several workloads", "quota", "deletion", "drain", "nodes")
KINDS: Mapping[str, type[KubeObject]] = {"Job": Job, "Deployment": Deployment, "StatefulSet": StatefulSet}
#: Cycles that a plan follows: more than any of these clusters takes to come to rest.
CYCLES = 30
#: Virtual time without a change after which a cluster is at rest: longer than a Job's controller waits with new pods.
REST_SECONDS, STEP_SECONDS, LONGEST_SECONDS = 700.0, 20.0, 7200.0

COLUMNS = (
    Column("kind", "asked"),
    Column("cases", "cases", number()),
    Column("agree", "agree", number()),
    Column("same_nodes", "on the same nodes", number()),
    Column("evicting", "with evictions", number()),
    Column("waiting", "with jobs that wait", number()),
)


@dataclass(frozen=True)
class Outcome:
    """What became of the workloads, by their names: pods' names and those of groups differ between plan and cluster."""

    running: dict[str, int]  #: pods with a node, by workload
    waiting: frozenset[str]  #: workloads of which nothing runs, though they have pods
    evicted: dict[str, int]  #: pods, by workload
    nodes: dict[str, dict[str, int]] = field(compare=False, default_factory=dict)  #: how many pods on each


@dataclass(frozen=True)
class Case:
    """One comparison."""

    seed: int
    kind: str
    planned: Outcome
    real: Outcome

    @property
    def agrees(self) -> bool:
        return self.planned == self.real


def run(cases: int = CASES, seed: int = 0) -> Report:
    """So many cases from this seed on."""
    report = Report("bosket plan, and what the scheduler then does", COLUMNS)
    began = time.process_time()
    done = []
    for number_ in range(seed, seed + cases):
        case = compare(number_)
        done.append(case)
        if not case.agrees:
            progress(f"seed {case.seed} ({case.kind}): planned {case.planned}, real {case.real}")
        if len(done) % 25 == 0:
            progress(f"{len(done)} cases, {sum(each.agrees for each in done)} agree")
    for kind in (*KINDS_ASKED, "all"):
        of_kind = [each for each in done if kind in (each.kind, "all")]
        report.rows.append(
            {
                "kind": kind,
                "cases": len(of_kind),
                "agree": sum(each.agrees for each in of_kind),
                "same_nodes": sum(each.agrees and each.planned.nodes == each.real.nodes for each in of_kind),
                "evicting": sum(bool(each.real.evicted) for each in of_kind),
                "waiting": sum(bool(each.real.waiting) for each in of_kind),
            }
        )
    agree = sum(each.agrees for each in done)
    report.expect(agree >= 0.99 * len(done), f"plan agrees in 99 % of cases: {agree} of {len(done)}")
    report.notes.append(f"{time.process_time() - began:.0f} s of CPU")
    return report


def compare(seed: int) -> Case:
    """Plans a case and then does it."""
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0)) as runner:
        return runner.run(_compare(seed))


async def _compare(seed: int) -> Case:
    random = Random(seed)
    made = scene(random)
    asked = question(random, made)
    shape = NodeShape(gpus=made.gpus)
    async with EmbeddedCluster(nodes=made.nodes, shape=shape, racks=made.racks, clock=LoopClock()) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        pods = Informers(client).of(Pod)
        gone: list[Pod] = []
        pods.subscribe(lambda change: gone.append(change.old) if change.new is None and change.old else None)
        watching = asyncio.create_task(pods.run())
        await pods.wait_synced()
        for manifest in (*made.queues, *made.workloads):
            await _create(client, manifest)
        await _rest(cluster.clock, pods)
        now = cluster.clock.now()
        live = await read_cluster(client, now=now)
        planned = await _plan(Cluster(live.recorded), asked)
        gone.clear()
        await _do(client, asked, made, cluster.clock.now())
        await _rest(cluster.clock, pods)
        deleted = {each.partition("/")[2] for each in asked.delete}
        real = _outcome(
            {
                pod.metadata.name: pod.spec.nodeName
                for pod in pods.store.values()
                if not pod.metadata.deletionTimestamp and pod.metadata.namespace == NAMESPACE
            },
            [
                pod.metadata.name
                for pod in gone
                if workload_name(pod.metadata.name) not in deleted and pod.metadata.namespace == NAMESPACE
            ],
        )
        watching.cancel()
        return Case(seed, asked.kind, planned, real)


async def _create(client: Client, manifest: Manifest) -> None:
    resource = resource_for(manifest["apiVersion"], manifest["kind"])
    assert resource is not None
    await client.create(manifest, kind=untyped(resource))


async def _rest(clock: Clock, pods: Informer[Pod]) -> None:
    """Until no pod has changed for a while."""
    changed_at = clock.monotonic()

    def changed(_: object) -> None:
        nonlocal changed_at
        changed_at = clock.monotonic()

    pods.subscribe(changed)
    began = clock.monotonic()
    while clock.monotonic() - changed_at < REST_SECONDS and clock.monotonic() - began < LONGEST_SECONDS:
        await clock.sleep(STEP_SECONDS)


async def _plan(cluster: Cluster, asked: Question) -> Outcome:
    draft = Draft(cluster)
    for text in asked.set_:
        set_queue(draft, text)
    for text in asked.delete:
        delete(draft, text, "default")
    if asked.add_nodes:
        add_nodes(draft, str(asked.add_nodes))
    drained = [drain(draft, text) for text in asked.drain]
    submission = await submit(draft, [FromFile(each, each["metadata"]["name"]) for each in asked.submit], "default")
    plan = make_plan(
        cluster, draft, drained=drained, subjects=submission.jobs, workloads=submission.workloads, cycles=CYCLES
    )
    pods = (*(pod for pod in draft.objects(Pod) if pod.key not in draft.ending), *draft.gone)
    nodes = {pod.metadata.name: "" for pod in pods if pod.metadata.namespace == NAMESPACE}
    for placed in plan.placed.values():
        nodes |= placed
    return _outcome(nodes, [pod for each in plan.evicts if each.job.namespace == NAMESPACE for pod in each.pods])


async def _do(client: Client, asked: Question, of: Scene, now: float) -> None:
    for manifest in asked.submit:
        await _create(client, manifest)
    for text in asked.set_:
        queue, _, field_ = text.partition("=")[0].split(".")
        patch = {"spec": {"resources": {"gpu": {field_: float(text.partition("=")[2])}}}}
        await client.patch(Queue, queue, patch)
    for text in asked.delete:
        kind, _, name = text.partition("/")
        await client.delete(KINDS[kind], name, "default", propagation="Background")
    for name in asked.drain:
        await client.patch(Node, name, {"spec": {"unschedulable": True}})
        for pod in (await client.list(Pod, NAMESPACE)).items:
            if pod.spec.nodeName == name:
                await client.evict(pod)
    for number_ in range(asked.add_nodes):
        layout = Layout(of.nodes + asked.add_nodes)
        await client.create(simulated_node(of.nodes + number_, layout, NodeShape(gpus=of.gpus), now))


def _outcome(nodes: Mapping[str, str], evicted: Iterable[str]) -> Outcome:
    """`nodes`: of all pods, empty where one has none."""
    by_workload: dict[str, Counter[str]] = {}
    for pod, node in nodes.items():
        found = by_workload.setdefault(workload_name(pod), Counter())
        if node:
            found[node] += 1
    return Outcome(
        running={name: found.total() for name, found in sorted(by_workload.items()) if found},
        waiting=frozenset(name for name, found in by_workload.items() if not found),
        evicted=dict(sorted(Counter(map(workload_name, evicted)).items())),
        nodes={name: dict(sorted(found.items())) for name, found in sorted(by_workload.items()) if found},
    )


def workload_name(pod: str) -> str:
    """`old-3` of `old-3-x7k2p`."""
    return "-".join(pod.split("-")[:2])
