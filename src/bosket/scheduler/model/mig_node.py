"""Nodes whose GPUs are partitioned (MIG): which they are, and by which strategy."""

from __future__ import annotations

from enum import Enum

from bosket.api.core import Node
from bosket.api.keys import MIG_ENABLED_LABEL, MIG_RESOURCE_PREFIX, NODE_MIG_STRATEGY_LABEL

#: What counts as a yes on a label, as in Go.
YES = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class MigStrategy(Enum):
    """What a node offers of its GPUs."""

    WHOLE = ""  #: whole ones: they aren't partitioned
    SINGLE = "single"  #: instances of one size, as if they were whole GPUs
    MIXED = "mixed"  #: instances by profile
    UNKNOWN = "none"  #: they are partitioned, and the node doesn't say how


def mig_strategy(node: Node) -> MigStrategy:
    """What the node's labels and resources say."""
    labels = node.metadata.labels
    enabled = labels.get(MIG_ENABLED_LABEL)
    if enabled is not None:
        is_mig = enabled in YES
    else:
        amounts = node.status.allocatable
        is_mig = any(str(amounts[name]) != "0" for name in amounts if name.startswith(MIG_RESOURCE_PREFIX))
    if not is_mig:
        return MigStrategy.WHOLE
    strategy = labels.get(NODE_MIG_STRATEGY_LABEL)
    return MigStrategy(strategy) if strategy in ("single", "mixed") else MigStrategy.UNKNOWN
