"""A PodCliqueSet of 1,000 pods on 100 embedded nodes, from apply to all running, and its deletion.

Each service is a process of its own; CPU time is the process's own, writes are what it counted itself. Fifty replicas
of a router and of a group of a leader and seven workers, twice: a base gang and a scaled gang each.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.gangs import COLUMNS, PATIENCE_SECONDS, until_running
from benchmarks.process import cpu_seconds, free_port, process, until_ready, until_serving, writes
from benchmarks.report import Report, progress
from bosket.api.core import Container, Pod, PodSpec, ResourceRequirements
from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroupConfig,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplateSpec,
    PodCliqueSpec,
    PodCliqueTemplateSpec,
    PodGang,
)
from bosket.api.kai import PodGroup
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect

REPLICAS, PODS, NODES = 50, 1_000, 100
SERVICES = ("grove-operator", "grove-backends", "scheduler", "binder")


def run() -> Report:
    progress(f"a PodCliqueSet of {PODS} pods from apply to Running")
    return asyncio.run(measure())


async def measure() -> Report:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = folder / "kubeconfig"
        arguments = ("up", f"--nodes={NODES}", f"--kubeconfig={kubeconfig}", "--services=none")
        server = await stack.enter_async_context(process(*arguments, log=folder / "server.log"))
        await until_ready(folder / "server.log")
        ports = {name: free_port() for name in SERVICES}
        running = {"server": server}
        for name in SERVICES:
            arguments = ("run", name, f"--kubeconfig={kubeconfig}", f"--listen=127.0.0.1:{ports[name]}")
            running[name] = await stack.enter_async_context(process(*arguments, log=folder / f"{name}.log"))
        for port in ports.values():
            await until_serving(port)
        client = connect(kubeconfig)
        stack.push_async_callback(client.aclose)
        cpu_before = {name: cpu_seconds(each.pid) for name, each in running.items()}
        writes_before = {name: writes(port) for name, port in ports.items()}
        started = time.monotonic()
        await client.create(inference_set())
        await until_running(client, PODS)
        took = time.monotonic() - started
        cpu = {name: cpu_seconds(each.pid) - cpu_before[name] for name, each in running.items()}
        made = {name: writes(port) - writes_before[name] for name, port in ports.items()}
        started = time.monotonic()
        await client.delete(PodCliqueSet, "inference", "default")
        await until_gone(client)
        gone = time.monotonic() - started

    report = Report(f"a PodCliqueSet of {PODS:,} pods on {NODES} nodes, from apply to Running", COLUMNS)
    for name in running:
        report.rows.append(_row(name, cpu[name], made.get(name)))
    report.rows.append(_row("all services", sum(cpu[name] for name in SERVICES), sum(made.values())))
    report.notes.append(
        f"All running {took:.1f} s after the set was applied ({PODS / took:.0f} pods a second); "
        f"{gone:.1f} s after its deletion nothing of it was left."
    )
    return report


def _row(process: str, cpu_s: float, writes: int | None) -> dict[str, object]:
    per_pod = None if writes is None else writes / PODS
    return {"process": process, "cpu_s": cpu_s, "cpu_ms_per_pod": cpu_s / PODS * 1e3, "writes_per_pod": per_pod}


def inference_set() -> PodCliqueSet:
    """Four routers, and twice a leader with seven workers, in each replica; complete, as admission would make it."""
    template = PodCliqueSetTemplateSpec(
        cliques=(_clique("router", 4, 1), _clique("leader", 1, 1), _clique("worker", 7, 7)),
        podCliqueScalingGroups=(
            PodCliqueScalingGroupConfig(name="model", cliqueNames=("leader", "worker"), replicas=2, minAvailable=1),
        ),
        terminationDelay="4h0m0s",
    )
    meta = ObjectMeta(name="inference", namespace="default")
    return PodCliqueSet(metadata=meta, spec=PodCliqueSetSpec(replicas=REPLICAS, template=template))


def _clique(name: str, replicas: int, minimum: int) -> PodCliqueTemplateSpec:
    resources = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    pod_spec = PodSpec(
        schedulerName=SCHEDULER_NAME,
        restartPolicy="Always",
        containers=(Container(name="main", image="example.com/work", resources=resources),),
    )
    spec = PodCliqueSpec(roleName=name, podSpec=pod_spec, replicas=replicas, minAvailable=minimum)
    return PodCliqueTemplateSpec(name=name, labels={"kai.scheduler/queue": "default-queue"}, spec=spec)


async def until_gone(client: Client) -> None:
    """Until nothing that was made for the set is left."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for kind in (PodCliqueSet, PodClique, PodGang, PodGroup, Pod):
            while (await client.list(kind, "default")).items:
                await asyncio.sleep(0.2)
