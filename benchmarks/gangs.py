"""1,000 pods in gangs of 8 on 125 embedded nodes: how long, CPU per pod of each service, API writes per pod.

Each service is a process of its own, as on a real cluster, so that its CPU time is its own; `server` is the embedded
cluster with API server, controllers and kubelets. Writes are what each process counted itself.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.embedded_processes import COLUMNS, embedded_processes, until_running
from benchmarks.report import Report, progress
from bosket.api.batch import Job, JobSpec
from bosket.api.core import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import ObjectMeta

GANGS, GANG_SIZE, NODES = 125, 8, 125
SERVICES = ("podgrouper", "scheduler", "binder")


def run() -> Report:
    progress(f"{GANGS} gangs of {GANG_SIZE} from Job to Running")
    return asyncio.run(measure())


async def measure() -> Report:
    pods = GANGS * GANG_SIZE
    report = Report(f"{pods:,} pods in gangs of {GANG_SIZE} on {NODES} nodes, from Job to Running", COLUMNS)
    async with embedded_processes(NODES, SERVICES) as cluster:
        cluster.begin()
        started = time.monotonic()
        await asyncio.gather(*(cluster.client.create(gang_job(number), "default") for number in range(GANGS)))
        submitted = time.monotonic() - started
        await until_running(cluster.client, pods)
        took = time.monotonic() - started
        report.rows += cluster.costs(pods)
    report.notes.append(
        f"All running {took:.1f} s after the first Job was submitted ({pods / took:.0f} pods a second); "
        f"submitting took {submitted:.1f} s."
    )
    return report


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
