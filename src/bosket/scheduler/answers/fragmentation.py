"""How much of the free GPUs pods can't use: in all, by shape of pods and by node. For `bosket nodes` and a metric.

As published: what is free of a GPU is fragmented for a shape if not even one pod of it could use it. What is being
released counts as free; nodes that take no pods are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from bosket.scheduler.framework.fragmentation import FreeGpus
from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ShapeReport:
    """What is fragmented for one shape of pods."""

    shape: str
    part: float  #: of the pods that the cluster sees
    fragmented: float  #: GPUs


@dataclass(frozen=True, slots=True)
class NodeReport:
    """GPUs of one node."""

    name: str
    gpus: float
    free: float
    fragmented: float  #: expected over the mix


@dataclass(frozen=True, slots=True)
class FragmentationReport:
    """GPUs of the nodes that take pods."""

    gpus: float
    free: float
    fragmented: float  #: expected over the mix
    shapes: tuple[ShapeReport, ...]  #: the most frequent first
    nodes: tuple[NodeReport, ...]  #: those with free GPUs, in order of names

    def share(self, fragmented: float) -> float:
        """So many GPUs as a part of all; 0 where there are none."""
        return fragmented / self.gpus if self.gpus else 0.0


def report(snapshot: Snapshot) -> FragmentationReport:
    """The snapshot's GPUs, by the mix of pods in it."""
    table, mix, taking = snapshot.nodes, snapshot.pod_mix, snapshot.taking_nodes()
    if not len(table):
        return FragmentationReport(gpus=0.0, free=0.0, fragmented=0.0, shapes=(), nodes=())
    free_gpus = FreeGpus(snapshot, NodeLedger(table), mix)
    free = free_gpus.free * taking
    fragmented = (free_gpus.free[:, None] - free_gpus.usable_now()) * taking[:, None]
    by_node = fragmented @ free_gpus.parts
    nodes = [
        NodeReport(name, float(table.allocatable[GPU, row]), float(free[row]), float(by_node[row]))
        for row, name in enumerate(table.names)
        if free[row] > 0
    ]
    shapes = [
        ShapeReport(str(shape), part, float(amount))
        for shape, part, amount in zip(mix.shapes, mix.parts, fragmented.sum(axis=0).tolist(), strict=True)
    ]
    return FragmentationReport(
        gpus=float((table.allocatable[GPU] * taking).sum()),
        free=float(free.sum()),
        fragmented=float(by_node.sum()),
        shapes=tuple(shapes),
        nodes=tuple(nodes),
    )
