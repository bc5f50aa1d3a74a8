"""What the domains of topologies hold: nodes, amounts, and the largest gang that could start in each at once.

For `bosket topology`. Made of a snapshot alone, with the same arrangement of nodes that decisions rest on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bosket.scheduler.model.resource import CPU, GPU, MEMORY, PODS
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.topology import OUTSIDE, TopologyTree

#: The resources that are shown, with their units.
SHOWN = {"gpus": (GPU, 1.0), "cpus": (CPU, 1000.0), "memory_gib": (MEMORY, float(2**30))}


@dataclass(frozen=True, slots=True)
class Amount:
    """Of a resource: what nodes have, what pods hold of it, and what nobody does."""

    total: float
    used: float
    free: float


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain, and those inside it."""

    name: str  #: its label's value; for the root the topology's name
    level: str  #: the label; "" for the root
    nodes: int
    taking: int  #: those of them that take pods
    amounts: Mapping[str, Amount]  #: by the names in `SHOWN`
    gang: int  #: how many pods could start in it together
    domains: tuple[Domain, ...]


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """A topology, its tree, and the nodes that don't belong to it, with the labels that they lack."""

    name: str
    levels: tuple[str, ...]
    root: Domain
    outside: Mapping[str, tuple[str, ...]]


def report(
    snapshot: Snapshot, tree: TopologyTree, pod: Mapping[str, float], depth: int | None = None
) -> TopologyReport:
    """The topology as nodes are now.

    `pod`: what each pod of a gang asks for, by the names in `SHOWN`; `depth`: how many levels are shown.
    """
    table = snapshot.nodes
    taking = snapshot.taking_nodes()
    slots = np.full(len(table), np.inf)
    for name, asked in pod.items():
        resource, unit = SHOWN[name]
        if asked:
            np.minimum(slots, np.floor(table.idle[resource] / (asked * unit)), out=slots)
    np.minimum(slots, table.idle[PODS], out=slots)
    by_level = {
        "nodes": tree.sums(np.ones(len(table))),
        "taking": tree.sums(taking.astype(np.float64)),
        "gang": tree.sums(np.where(taking, np.maximum(slots, 0.0), 0.0)),
        **{f"{name} total": tree.sums(table.allocatable[resource] / unit) for name, (resource, unit) in SHOWN.items()},
        **{f"{name} free": tree.sums(table.idle[resource] / unit) for name, (resource, unit) in SHOWN.items()},
    }

    def amount(total: float, free: float) -> Amount:
        return Amount(total, total - free, free)

    def domain(level: int, number: int, above: str = "") -> Domain:
        name = tree.levels[level].names[number]

        def of(what: str) -> float:
            return float(by_level[what][level][number])

        inner = level < len(tree.levels) - 1 and (depth is None or level < depth)
        return Domain(
            name=name.removeprefix(f"{above}.") if level else tree.name,
            level=tree.levels[level].label if level else "",
            nodes=int(of("nodes")),
            taking=int(of("taking")),
            amounts={name: amount(of(f"{name} total"), of(f"{name} free")) for name in SHOWN},
            gang=int(of("gang")),
            domains=tuple(domain(level + 1, each, name if level else "") for each in tree.inside_of(level, number))
            if inner
            else (),
        )

    return TopologyReport(tree.name, tuple(tree.labels), domain(0, 0), _outside(snapshot, tree))


def _outside(snapshot: Snapshot, tree: TopologyTree) -> dict[str, tuple[str, ...]]:
    nodes = (snapshot.nodes.nodes[row].metadata for row in np.flatnonzero(tree.levels[0].of_row == OUTSIDE))
    return {node.name: tuple(label for label in tree.labels if label not in node.labels) for node in nodes}
