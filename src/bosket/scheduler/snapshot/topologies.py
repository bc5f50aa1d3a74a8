"""Topologies, and the nodes as each of them arranges them: made anew only when it, or what nodes are, changed."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api.kai import Topology
from bosket.scheduler.model.node import NodeTable
from bosket.scheduler.model.topology import TopologyTree, build_tree


class Topologies:
    """All of them, by name."""

    def __init__(self) -> None:
        self.objects: dict[str, Topology] = {}
        self._trees: dict[str, tuple[Topology, int, TopologyTree]] = {}

    def put(self, topology: Topology) -> bool:
        """True when something changed that anybody rests on."""
        before = self.objects.get(topology.metadata.name)
        self.objects[topology.metadata.name] = topology
        return before is None or before.spec != topology.spec

    def drop(self, name: str) -> bool:
        """True when it was there."""
        return self.objects.pop(name, None) is not None

    def arrange(self, nodes: NodeTable) -> Mapping[str, TopologyTree]:
        known, self._trees = self._trees, {}
        for name, topology in sorted(self.objects.items()):
            found = known.get(name)
            if found is None or found[0].spec != topology.spec or found[1] != nodes.static_version:
                found = (topology, nodes.static_version, build_tree(topology, nodes.nodes))
            self._trees[name] = found
        return {name: tree for name, (_, _, tree) in self._trees.items()}
