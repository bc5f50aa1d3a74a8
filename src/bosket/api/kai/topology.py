"""kai.scheduler/v1alpha1 Topology: the levels (zone, rack, host…) that a cluster's nodes are arranged in."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bosket.api.crd_marks import AGE, QUALIFIED_NAME_PATTERN, Column, Rule, schema
from bosket.api.object import KubeObject, Wire
from bosket.api.resource import Resource

_LabelKey = Annotated[str, schema(minLength=1, maxLength=316, pattern=QUALIFIED_NAME_PATTERN)]

_LEVEL_RULES = (
    Rule(
        "self.map(level, level.nodeLabel) == oldSelf.map(level, level.nodeLabel)",
        "the sequence of nodeLabels can't be changed; only aliases can",
    ),
    Rule(
        "self.all(level, self.exists_one(other, other.nodeLabel == level.nodeLabel))",
        "every level needs a nodeLabel of its own",
    ),
    Rule(
        "self.all(level, level.nodeLabel != 'kubernetes.io/hostname')"
        " || self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
        "nothing is narrower than a host: kubernetes.io/hostname can only be the last level",
    ),
)


class TopologyLevel(Wire):
    """One level: nodes with equal values of the label are in the same domain."""

    nodeLabel: _LabelKey
    """Key of the node label that tells the level's domains apart."""
    alias: _LabelKey | None = None
    """Another name of the level, for use in topology constraints."""


class TopologySpec(Wire):
    """The levels of a topology."""

    levels: Annotated[
        tuple[TopologyLevel, ...], schema(minItems=1, maxItems=16, list_type="atomic", rules=_LEVEL_RULES)
    ]
    """From the widest to the narrowest."""


class Topology(KubeObject, kw_only=True):
    """How the nodes of a cluster are arranged, so that pods can be kept close to each other."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (Column("Widest", ".spec.levels[0].nodeLabel"), AGE)

    spec: TopologySpec


TOPOLOGY = Resource("kai.scheduler", "v1alpha1", "Topology", "topologies", Topology, namespaced=False)
