"""Topologies: Topology objects, and the nodes arranged in their domains.

The domain of every node is kept; a new arrangement is computed only when a node comes, goes or changes domain, or when
the Topology changes. Taints and conditions have no effect here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.api.kai import Topology
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.topology import Path, TopologyTree, build_tree, paths_of


class Topologies:
    """All Topology objects, by name."""

    def __init__(self) -> None:
        self.objects: dict[str, Topology] = {}
        self._arrangements: dict[str, _Arrangement] = {}

    def put(self, topology: Topology) -> bool:
        """True when something relevant changed."""
        before = self.objects.get(topology.metadata.name)
        self.objects[topology.metadata.name] = topology
        return before is None or before.spec != topology.spec

    def drop(self, name: str) -> bool:
        """True when the Topology existed."""
        return self.objects.pop(name, None) is not None

    def arrange(self, nodes: NodeTable) -> Mapping[str, TopologyTree]:
        known, self._arrangements = self._arrangements, {}
        trees = {}
        for name, topology in sorted(self.objects.items()):
            found = known.get(name)
            if found is None or found.topology.spec != topology.spec:
                found = _Arrangement(topology)
            self._arrangements[name] = found
            trees[name] = found.of(nodes)
        return trees


@dataclass(slots=True)
class _Arrangement:
    topology: Topology
    _version: int | None = None
    _paths: list[Path | None] = field(default_factory=list)
    _tree: TopologyTree | None = None

    def of(self, nodes: NodeTable) -> TopologyTree:
        if self._tree is not None and self._version == nodes.static_version:
            return self._tree
        paths = paths_of([level.nodeLabel for level in self.topology.spec.levels], nodes.nodes)
        if self._tree is None or paths != self._paths:
            self._paths, self._tree = paths, build_tree(self.topology, paths)
        self._version = nodes.static_version
        return self._tree
