"""A PodCliqueSet of 1,000 pods on 100 embedded nodes, from apply to all running, and its deletion.

Each service is a process of its own; CPU time is the process's own, writes are what it counted itself. Fifty replicas
of a router and of a group of a leader and seven workers, twice: a base gang and a scaled gang each.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.embedded_processes import COLUMNS, PATIENCE_SECONDS, embedded_processes, until_running
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

REPLICAS, PODS, NODES = 50, 1_000, 100
SERVICES = ("grove-operator", "grove-backends", "scheduler", "binder")


def run() -> Report:
    progress(f"a PodCliqueSet of {PODS} pods from apply to Running")
    return asyncio.run(measure())


async def measure() -> Report:
    report = Report(f"a PodCliqueSet of {PODS:,} pods on {NODES} nodes, from apply to Running", COLUMNS)
    async with embedded_processes(NODES, SERVICES) as cluster:
        cluster.begin()
        started = time.monotonic()
        await cluster.client.create(inference_set())
        await until_running(cluster.client, PODS)
        took = time.monotonic() - started
        report.rows += cluster.costs(PODS)
        started = time.monotonic()
        await cluster.client.delete(PodCliqueSet, "inference", "default")
        await until_gone(cluster.client)
        gone = time.monotonic() - started
    report.notes.append(
        f"All running {took:.1f} s after the set was applied ({PODS / took:.0f} pods a second); "
        f"{gone:.1f} s after its deletion nothing of it was left."
    )
    return report


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
