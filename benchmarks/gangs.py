"""1,000 pods in gangs of 8 on 125 embedded nodes: how long, CPU per pod of each service, API writes per pod.

Each service is a process of its own, as on a real cluster, so that its CPU time is its own; `server` is the embedded
cluster with API server, controllers and kubelets. Writes are what each process counted itself.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.process import cpu_seconds, free_port, process, until_ready, until_serving, writes
from benchmarks.report import Column, Report, number, progress
from bosket.api.batch import Job, JobSpec
from bosket.api.core import Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.kubeconfig import connect

GANGS, GANG_SIZE, NODES = 125, 8, 125
SERVICES = ("podgrouper", "scheduler", "binder")
PATIENCE_SECONDS = 300.0

COLUMNS = (
    Column("process", "process"),
    Column("cpu_s", "CPU", number(2, " s")),
    Column("cpu_ms_per_pod", "CPU per pod", number(2, " ms")),
    Column("writes_per_pod", "API writes per pod", number(2)),
)


def run() -> Report:
    progress(f"{GANGS} gangs of {GANG_SIZE} from Job to Running")
    return asyncio.run(measure())


async def measure() -> Report:
    pods = GANGS * GANG_SIZE
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = folder / "kubeconfig"
        server = await stack.enter_async_context(
            process(
                "up", f"--nodes={NODES}", f"--kubeconfig={kubeconfig}", "--services=none", log=folder / "server.log"
            )
        )
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
        await asyncio.gather(*(client.create(gang_job(number), "default") for number in range(GANGS)))
        submitted = time.monotonic() - started
        await until_running(client, pods)
        took = time.monotonic() - started
        cpu = {name: cpu_seconds(each.pid) - cpu_before[name] for name, each in running.items()}
        made = {name: writes(port) - writes_before[name] for name, port in ports.items()}

    report = Report(f"{pods:,} pods in gangs of {GANG_SIZE} on {NODES} nodes, from Job to Running", COLUMNS)
    for name in running:
        report.rows.append(_row(name, cpu[name], made.get(name), pods))
    report.rows.append(_row("all services", sum(cpu[name] for name in SERVICES), sum(made.values()), pods))
    report.notes.append(
        f"All running {took:.1f} s after the first Job was submitted ({pods / took:.0f} pods a second); "
        f"submitting took {submitted:.1f} s."
    )
    return report


def _row(process: str, cpu_s: float, writes: int | None, pods: int) -> dict[str, object]:
    per_pod = None if writes is None else writes / pods
    return {"process": process, "cpu_s": cpu_s, "cpu_ms_per_pod": cpu_s / pods * 1e3, "writes_per_pod": per_pod}


def gang_job(number: int) -> Job:
    meta = ObjectMeta(
        name=f"gang-{number}",
        namespace="default",
        labels={"kai.scheduler/queue": "default-queue"},
        annotations={"kai.scheduler/batch-min-member": str(GANG_SIZE)},
    )
    resources = ResourceRequirements(limits={"nvidia.com/gpu": "1"}, requests={"cpu": "1", "memory": "1Gi"})
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"kai.scheduler/queue": "default-queue"}),
        spec=PodSpec(
            schedulerName=SCHEDULER_NAME,
            restartPolicy="Never",
            containers=(Container(name="main", image="example.com/work", resources=resources),),
        ),
    )
    return Job(metadata=meta, spec=JobSpec(parallelism=GANG_SIZE, completions=GANG_SIZE, template=template))


async def until_running(client: Client, wanted: int) -> None:
    """Follows a watch, which costs the server less than asking again and again."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        page = await client.list(Pod, "default")
        running = {pod.key for pod in page.items if pod.status.phase == "Running"}
        if len(running) >= wanted:
            return
        async for event in client.watch(Pod, "default", resource_version=page.resource_version):
            if event.object is not None and event.object.status.phase == "Running":
                running.add(event.object.key)
                if len(running) >= wanted:
                    return
