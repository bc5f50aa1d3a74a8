"""The openb trace as one cycle: 10,800 pods of 151 shapes on 1,213 nodes of six kinds, a job each, in order of arrival.

Pods are drawn as in the published experiment (`traces/README.md` below `$BOSKET_SHARED`): the list in random order,
again and again, until they ask for 130 % of all GPUs. One queue without quota; nothing is preemptible.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

from bosket.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, state_of

NODES_FILE, PODS_FILE = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
DEMAND = 1.3  #: GPUs asked for, by GPUs there are
SEED = 42
GPU_MEMORY_MIB = 81_920

Row = dict[str, str]


def write_openb(traces: Path, file: Path) -> None:
    """Writes the cluster of the trace as a recording."""
    objects = openb_objects(traces, PODS_FILE, SEED)
    file.write_bytes(zipped(take(state_of(objects), StateOptions(), Configuration(), NOW)))


def openb_objects(traces: Path, pods_file: str, seed: int) -> list[KubeObject]:
    """The cluster of the trace, and the pods of a list in an order that the seed gives."""
    nodes = _rows(traces / NODES_FILE)
    objects: list[KubeObject] = [queue("q"), *(_node(row) for row in nodes)]
    demand = DEMAND * sum(int(row["gpu"]) for row in nodes)
    for number, row in enumerate(_drawn(_rows(traces / pods_file), demand, seed)):
        name = f"job-{number:06}"
        created = 1.7e9 + number
        objects += [pod_group(name, preemptibility="non-preemptible", created=created), _pod(name, row)]
    return objects


def _rows(file: Path) -> list[Row]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _drawn(rows: list[Row], gpus: float, seed: int) -> Iterator[Row]:
    """Rows in random order, again and again, until they ask for so many GPUs."""
    rng, asked = random.Random(seed), 0.0
    while True:
        for row in rng.sample(rows, len(rows)):
            if asked >= gpus:
                return
            asked += int(row["num_gpu"]) * int(row["gpu_milli"]) / 1000
            yield row


def _node(row: Row) -> KubeObject:
    return node(
        row["sn"],
        gpus=int(row["gpu"]),
        cpu=f"{row['cpu_milli']}m",
        memory=f"{row['memory_mib']}Mi",
        pods=250,
        gpu_memory=GPU_MEMORY_MIB,
        model=row["model"],
    )


def _pod(name: str, row: Row) -> Pod:
    asked = pod(name).cpu(f"{row['cpu_milli']}m").memory(f"{row['memory_mib']}Mi").of_group(name)
    if row["gpu_spec"]:
        asked = asked.with_spec(affinity=_on_models(row["gpu_spec"].split("|")))
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    if gpus == 1 and milli < 1000:
        return asked.shares_gpu(milli / 1000).build()
    return (asked.gpu(gpus) if gpus else asked).build()


def _on_models(models: list[str]) -> Affinity:
    """Only on nodes whose GPUs are of one of these models."""
    among = NodeSelectorRequirement(key="model", operator="In", values=tuple(models))
    required = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(among,)),))
    return Affinity(nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required))
