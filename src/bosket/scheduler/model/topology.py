"""Topologies: how nodes are arranged in domains (zones, racks, hosts), level within level.

Made of a Topology and the node table, and kept while no node's place in it changes. A node belongs to a topology if it
has the label of every level. The widest level of all is the root: one domain, with every node of the topology in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Node
from bosket.api.kai import Topology
from bosket.scheduler.model.node import Mask

ROOT = "root"
OUTSIDE = -1  #: the domain of nodes that don't belong to the topology

Path = tuple[str, ...]  #: the values of the levels' labels, from the widest on
Amounts = NDArray[np.float64]


class Segments:
    """Which members each of some segments has, so that amounts of members can be added up segment by segment."""

    def __init__(self, of: NDArray[np.intp], count: int) -> None:
        """`of`: (member,), the segment of each, or `OUTSIDE`."""
        self._count = count
        order = np.argsort(of, kind="stable")
        self._members = order[np.searchsorted(of[order], 0) :]
        self._of = of[self._members]
        self._ends = np.cumsum(np.bincount(self._of, minlength=count))

    def members(self, segment: int) -> NDArray[np.intp]:
        """In ascending order."""
        return self._members[self._ends[segment - 1] if segment else 0 : self._ends[segment]]

    def sums(self, amounts: Amounts) -> Amounts:
        """(segment,): of an amount per member."""
        sums = np.bincount(self._of, weights=amounts[self._members], minlength=self._count)
        return sums.astype(np.float64, copy=False)

    def renew(self, sums: Amounts, segments: list[int], amounts: Amounts) -> None:
        """The same for some segments, to the last bit: amounts are added one after the other here too."""
        if len(self._members) == self._count:  # one member each: hosts
            sums[segments] = amounts[self._members[segments]]
            return
        for segment in segments:
            sums[segment] = sum(amounts[self.members(segment)].tolist())


@dataclass(frozen=True, eq=False)
class TopologyLevel:
    """All domains of one level; numbers are in order of their names."""

    label: str
    names: tuple[str, ...]  #: the labels' values from the widest level on: "zone-a.rack-1"
    of_row: NDArray[np.intp]  #: (node,), the number of its domain
    parents: NDArray[np.intp]  #: (domain,), the number of the domain of the next wider level that it is in

    @cached_property
    def rows(self) -> Segments:
        """The rows of the node table, by domain."""
        return Segments(self.of_row, len(self.names))

    def nodes_of(self, domain: int) -> Mask:
        mask = np.zeros(len(self.of_row), dtype=bool)
        mask[self.rows.members(domain)] = True
        return mask


@dataclass(frozen=True, eq=False)
class TopologyTree:
    """A topology over the nodes of a snapshot; `levels` from the root on."""

    name: str
    levels: tuple[TopologyLevel, ...]
    aliases: dict[str, str]

    @property
    def labels(self) -> list[str]:
        """Those that a node must have to belong to it."""
        return [level.label for level in self.levels[1:]]

    @cached_property
    def inside(self) -> Mask:
        """Nodes that belong to it."""
        return np.asarray(self.levels[0].of_row != OUTSIDE)

    @cached_property
    def _children(self) -> tuple[Segments, ...]:
        """By level: the domains of the next narrower one, by domain."""
        return tuple(
            Segments(narrower.parents, len(level.names))
            for level, narrower in zip(self.levels, self.levels[1:], strict=False)
        )

    def number_of(self, level: str) -> int | None:
        """Which level is meant, by its label or its other name."""
        label = self.aliases.get(level, level)
        return next((number for number, each in enumerate(self.levels) if number and each.label == label), None)

    def common_domain(self, rows: NDArray[np.intp], narrowest: int) -> tuple[int, int]:
        """The level and number of the narrowest domain that all these nodes are in, no narrower than a level."""
        found = (0, 0)
        for number in range(1, narrowest + 1 if len(rows) else 0):
            domains = self.levels[number].of_row[rows]
            if (domains != domains[0]).any():
                break
            found = (number, int(domains[0]))
        return found

    def inside_of(self, level: int, domain: int) -> list[int]:
        """The domains of the next narrower level that are in this one."""
        return [int(each) for each in self._children[level].members(domain)]

    def below(self, level: int, *domains: int) -> list[Mask]:
        """By level: (domain,), whether it is one of these domains of a level or inside one."""
        found = [np.zeros(len(each.names), dtype=bool) for each in self.levels[: level + 1]]
        found[level][list(domains)] = True
        for each in self.levels[level + 1 :]:
            found.append(found[-1][each.parents])
        return found

    def sums(self, amounts: Amounts) -> list[Amounts]:
        """By level: (domain,), sums of an amount per node; those of wider levels are made of the narrower ones'."""
        found = [self.levels[-1].rows.sums(amounts)]
        for children in reversed(self._children):
            found.append(children.sums(found[-1]))
        return found[::-1]

    def renew_sums(self, sums: Sequence[Amounts], amounts: Amounts, rows: NDArray[np.intp]) -> None:
        """Adds up anew what has changed with these nodes."""
        changed = list(set(self.levels[-1].of_row[rows].tolist()) - {OUTSIDE})
        self.levels[-1].rows.renew(sums[-1], changed, amounts)
        for level in range(len(self.levels) - 2, -1, -1):
            changed = list(set(self.levels[level + 1].parents[changed].tolist()))
            self._children[level].renew(sums[level], changed, sums[level + 1])


def paths_of(labels: Sequence[str], nodes: Iterable[Node]) -> list[Path | None]:
    """Where nodes are, by the labels of levels; None for one that doesn't belong to the topology."""
    read = itemgetter(*labels) if len(labels) > 1 else lambda values: tuple([values[label] for label in labels])
    paths: list[Path | None] = []
    for node in nodes:
        try:
            paths.append(read(node.metadata.labels))
        except KeyError:
            paths.append(None)
    return paths


def build_tree(topology: Topology, paths: Sequence[Path | None]) -> TopologyTree:
    """Arranges nodes by their paths."""
    rows = np.array([row for row, path in enumerate(paths) if path is not None], dtype=np.intp)
    inside = [path for path in paths if path is not None]
    levels = [TopologyLevel(ROOT, (ROOT,), _spread(np.zeros(len(rows), dtype=np.intp), rows, len(paths)), FIRST)]
    wider, wider_names = [0] * len(rows), [""]
    values_by_level = zip(*inside, strict=True) if inside else repeat(())
    for depth, (level, values) in enumerate(zip(topology.spec.levels, values_by_level, strict=False)):
        keys = list(zip(wider, values, strict=True))
        found = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        met = list(map(found.__getitem__, keys))
        names = [f"{wider_names[parent]}.{value}" if depth else value for parent, value in found]
        by_name = sorted(range(len(names)), key=names.__getitem__)
        numbers = np.empty(len(names), dtype=np.intp)
        numbers[by_name] = np.arange(len(names))
        of_inside = numbers[met]
        parents = np.array([parent for parent, _ in found], dtype=np.intp)[by_name]
        wider, wider_names = of_inside.tolist(), [names[each] for each in by_name]
        of_row = _spread(of_inside, rows, len(paths))
        levels.append(TopologyLevel(level.nodeLabel, tuple(wider_names), of_row, parents))
    aliases = {level.alias: level.nodeLabel for level in topology.spec.levels if level.alias}
    return TopologyTree(topology.metadata.name, tuple(levels), aliases)


FIRST = np.zeros(1, dtype=np.intp)  #: what the root is in: itself


def _spread(numbers: NDArray[np.intp], rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """(node,): the numbers of those inside, at their rows."""
    result = np.full(count, OUTSIDE, dtype=np.intp)
    result[rows] = numbers
    return result
