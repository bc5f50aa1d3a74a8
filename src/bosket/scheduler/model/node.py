"""NodeTable: one row per node, in order of names; amounts are arrays over (resource, node).

The order matters: the first maximum of a score array is the node with the best score and the smallest name, and ties
are broken that way everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NewType, cast

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Node
from bosket.scheduler.model.gpu_group import Groups

Amounts2D = NDArray[np.float64]  #: (resource, node)
Mask = NDArray[np.bool_]  #: (node,)
#: The row of a node in the table, and its column in arrays over (resource, node). A type of its own, so that mypy
#: finds confusions with a `QueueRow`.
NodeRow = NewType("NodeRow", int)
#: Stands for the row of a task that has no node.
NOWHERE = NodeRow(-1)

#: Conditions that must not be reported True on a node that takes pods.
PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """The GPUs of all nodes as devices that can be shared."""

    sizes: tuple[int, ...]  #: (node,): memory of each of the node's devices, in MiB
    known: Mask  #: whether a node says how much memory its devices have
    groups: Mapping[NodeRow, Groups]  #: by row: the devices that are shared, of nodes that have some
    legacy_mig: frozenset[NodeRow]  #: rows of nodes with pods that ask for instances of GPUs by annotation
    smallest: int | None  #: of the sizes that are known; None where there are no GPUs
    largest: int | None


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """All nodes and their free amounts. Arrays are read-only; a session works on copies of `idle` and `releasing`."""

    nodes: tuple[Node, ...]
    rows: Mapping[str, NodeRow]
    allocatable: Amounts2D
    idle: Amounts2D  #: not held by any pod
    foreign: Amounts2D  #: held by pods of other schedulers
    releasing: Amounts2D  #: held by terminating pods, less what is promised to pipelined pods
    devices: Devices
    #: changes with labels, taints, conditions and the set of nodes; verdicts that depend on these alone are valid until
    #: then
    static_version: int

    def __len__(self) -> int:
        return len(self.nodes)

    def all_rows(self) -> Sequence[NodeRow]:
        """The rows of all nodes, in order."""
        return rows_of(self.nodes)

    def refusals(self) -> tuple[str | None, ...]:
        """(node,): why a node takes no new pods at all; None where it does."""
        return tuple(map(refuses_pods, self.nodes))

    @property
    def names(self) -> list[str]:
        return [node.metadata.name for node in self.nodes]


def rows_of(nodes: Sized) -> Sequence[NodeRow]:
    """The rows of these nodes, where they are all that a table has: 0, 1 and so on."""
    return cast("Sequence[NodeRow]", range(len(nodes)))


def rows_in(mask: NDArray[Any]) -> list[NodeRow]:
    """The rows where an array (node,) is not zero, in order."""
    return cast("list[NodeRow]", np.flatnonzero(mask).tolist())


def taking(refusals: Sequence[str | None]) -> Mask:
    """(node,): whether a node takes new pods at all."""
    return np.array([each is None for each in refusals], dtype=bool)


def refuses_pods(node: Node) -> str | None:
    """Why a node takes no new pods at all; None if it does."""
    if node.spec.unschedulable:
        return "node(s) were unschedulable"
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            return "node(s) were not ready"
        if condition.type in PRESSURES and condition.status != "False":
            return f"node(s) reported {condition.type}"
    return None
