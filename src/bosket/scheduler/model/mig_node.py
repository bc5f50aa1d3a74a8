"""MIG nodes: whose GPUs are partitioned, and by which strategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Node
from bosket.api.keys import MIG_ENABLED_LABEL, MIG_RESOURCE_PREFIX, NODE_MIG_STRATEGY_LABEL

#: What counts as a yes on a label, as in Go.
YES = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class MigStrategy(IntEnum):
    """How a node offers its GPUs."""

    WHOLE = 0  #: whole ones: they aren't partitioned
    SINGLE = 1  #: instances of one size, as if they were whole GPUs
    MIXED = 2  #: instances by profile
    UNKNOWN = 3  #: they are partitioned, and the node doesn't say how


BY_LABEL = {"single": MigStrategy.SINGLE, "mixed": MigStrategy.MIXED}


def mig_strategies(nodes: Sequence[Node], resource_names: Iterable[str]) -> NDArray[np.int8]:
    """(node,), each a MigStrategy, by what labels and resources say; `resource_names`: all that any node has."""
    profiles = [name for name in resource_names if name.startswith(MIG_RESOURCE_PREFIX)]
    return np.array([_strategy(node, profiles) for node in nodes], dtype=np.int8)


def _strategy(node: Node, profiles: Sequence[str]) -> MigStrategy:
    labels = node.metadata.labels
    enabled = labels.get(MIG_ENABLED_LABEL)
    if enabled is not None:
        is_mig = enabled in YES
    else:
        is_mig = bool(profiles) and any(str(node.status.allocatable.get(name, "0")) != "0" for name in profiles)
    if not is_mig:
        return MigStrategy.WHOLE
    return BY_LABEL.get(labels.get(NODE_MIG_STRATEGY_LABEL, ""), MigStrategy.UNKNOWN)
