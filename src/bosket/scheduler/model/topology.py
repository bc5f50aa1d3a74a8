"""Topologies: how nodes are arranged in domains (zones, racks, hosts), level within level.

Made of a Topology and the node table once, and kept while neither changes. A node belongs to a topology if it has the
label of every level. The widest level of all is the root: one domain, with every node of the topology in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Node
from bosket.api.kai import Topology
from bosket.scheduler.model.node import Mask

ROOT = "root"
OUTSIDE = -1  #: the domain of nodes that don't belong to the topology


@dataclass(frozen=True, slots=True, eq=False)
class TopologyLevel:
    """All domains of one level; numbers are in order of their names."""

    label: str
    names: tuple[str, ...]  #: the labels' values from the widest level on: "zone-a.rack-1"
    of_row: NDArray[np.intp]  #: (node,), the number of its domain
    parents: NDArray[np.intp]  #: (domain,), the number of the domain of the next wider level that it is in

    def nodes_of(self, domain: int) -> Mask:
        return np.asarray(self.of_row == domain)


@dataclass(frozen=True, slots=True, eq=False)
class TopologyTree:
    """A topology over the nodes of a snapshot; `levels` from the root on."""

    name: str
    levels: tuple[TopologyLevel, ...]
    aliases: dict[str, str]

    @property
    def inside(self) -> Mask:
        """Nodes that belong to it."""
        return np.asarray(self.levels[0].of_row != OUTSIDE)

    def number_of(self, level: str) -> int | None:
        """Which level is meant, by its label or its other name."""
        label = self.aliases.get(level, level)
        return next((number for number, each in enumerate(self.levels) if number and each.label == label), None)


def build_tree(topology: Topology, nodes: Sequence[Node]) -> TopologyTree:
    """Arranges the nodes."""
    labels = [level.nodeLabel for level in topology.spec.levels]
    paths: list[tuple[str, ...] | None] = []
    for node in nodes:
        values = node.metadata.labels
        paths.append(tuple(values[label] for label in labels) if all(label in values for label in labels) else None)
    inside = np.array([path is not None for path in paths], dtype=bool)
    root = TopologyLevel(ROOT, (ROOT,), np.where(inside, 0, OUTSIDE).astype(np.intp), np.zeros(1, dtype=np.intp))
    levels = [root]
    wider: dict[str, int] = {}
    for depth, label in enumerate(labels, start=1):
        names = [None if path is None else ".".join(path[:depth]) for path in paths]
        known = sorted({name for name in names if name is not None})
        numbers = {name: number for number, name in enumerate(known)}
        of_row = np.array([OUTSIDE if name is None else numbers[name] for name in names], dtype=np.intp)
        parents = np.zeros(len(known), dtype=np.intp)
        for path in paths:
            if path is not None and depth > 1:
                parents[numbers[".".join(path[:depth])]] = wider[".".join(path[: depth - 1])]
        levels.append(TopologyLevel(label, tuple(known), of_row, parents))
        wider = numbers
    aliases = {level.alias: level.nodeLabel for level in topology.spec.levels if level.alias}
    return TopologyTree(topology.metadata.name, tuple(levels), aliases)
