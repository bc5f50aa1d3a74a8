"""PodCliqueSets of 1,000 pods on 100 embedded nodes: from apply to Running, a look that finds nothing to do, deletion.

Each service is a process of its own; CPU time is the process's own, writes are what it counted itself. `--pods` and
`--shape` are for other sizes, and for other shapes than that of an inference system: see `grove_shape`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.embedded_processes import (
    COLUMNS,
    PATIENCE_SECONDS,
    EmbeddedProcesses,
    embedded_processes,
    until_running,
)
from benchmarks.grove_shape import SHAPES
from benchmarks.report import Column, Report, number, progress
from bosket.api.core import Pod
from bosket.api.grove import PodClique, PodCliqueSet, PodGang
from bosket.api.grove.naming import RECONCILE_TRIGGER_ANNOTATION
from bosket.api.kai import PodGroup
from bosket.kube.client import Client
from tests.grove.writes import count_writes

NODES = 100
SERVICES = ("grove-operator", "grove-backends", "scheduler", "binder")
#: How long statuses take to come to rest, and how long a look is given.
_SETTLE_SECONDS = 7.0
_WRITTEN = (Column("write", "written by anybody"), Column("per_pod", "per pod", number(3)))


def run(pods: int = 1_000, shape: str = "inference") -> Report:
    progress(f"PodCliqueSets of {pods} pods from apply to Running")
    return asyncio.run(measure(SHAPES[shape](pods)))


async def measure(owners: Sequence[PodCliqueSet]) -> Report:
    pods = sum(map(_size, owners))
    what = "a PodCliqueSet" if len(owners) == 1 else f"{len(owners):,} PodCliqueSets"
    report = Report(f"{what} of {pods:,} pods on {NODES} nodes, from apply to Running", COLUMNS)
    async with embedded_processes(NODES, SERVICES) as cluster:
        cluster.begin()
        before = await count_writes(cluster.client)
        started = time.monotonic()
        await asyncio.gather(*map(cluster.client.create, owners))
        await until_running(cluster.client, pods)
        took = time.monotonic() - started
        await asyncio.sleep(_SETTLE_SECONDS)
        report.rows += cluster.costs(pods)
        report.details.append(_written(await count_writes(cluster.client) - before, pods))
        looks = await _look_again(cluster, owners)
        started = time.monotonic()
        for owner in owners:
            await cluster.client.delete(PodCliqueSet, owner.metadata.name, "default")
        await until_gone(cluster.client)
        gone = time.monotonic() - started
    report.notes.append(
        f"All running {took:.1f} s after they were applied ({pods / took:.0f} pods a second); "
        f"{gone:.1f} s after their deletion nothing of them was left. {looks}"
    )
    return report


def _size(owner: PodCliqueSet) -> int:
    """How many pods a set has."""
    template = owner.spec.template
    of_group = {name: group.replicas for group in template.podCliqueScalingGroups for name in group.cliqueNames}
    return owner.spec.replicas * sum(each.spec.replicas * of_group.get(each.name, 1) for each in template.cliques)


def _written(writes: Counter[str], pods: int) -> Report:
    rows = [{"write": write, "per_pod": count / pods} for write, count in writes.most_common() if count >= pods / 100]
    return Report("writes, but events and leases", _WRITTEN, list(rows))


async def _look_again(cluster: EmbeddedProcesses, owners: Sequence[PodCliqueSet]) -> str:
    """Have the operator look at every set, and say what that took."""
    cluster.begin()
    before = await count_writes(cluster.client)
    patch = {"metadata": {"annotations": {RECONCILE_TRIGGER_ANNOTATION: "again"}}}
    for owner in owners:
        await cluster.client.patch(PodCliqueSet, owner.metadata.name, patch, namespace="default")
    await asyncio.sleep(_SETTLE_SECONDS)
    operator = next(each for each in cluster.costs(1) if each["process"] == "grove-operator")
    writes = (await count_writes(cluster.client) - before).total() - len(owners)
    return f"A look at all of them took the operator {operator['cpu_s']:.2f} s of CPU and {writes} writes."


async def until_gone(client: Client) -> None:
    """Until nothing that was made for the sets is left."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for kind in (PodCliqueSet, PodClique, PodGang, PodGroup, Pod):
            while (await client.list(kind, "default")).items:
                await asyncio.sleep(0.2)
