"""What a grouper is given, and what it gives back.

A grouper is a plain function `Workload -> Grouping`. What it may ask about the cluster is in `Cluster`, and the answers
are in memory: groupers do no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.podgrouper.kind_default import KindDefaults
from bosket.podgrouper.options import Options
from bosket.podgrouper.owner import Owner


class Cluster(Protocol):
    """What grouping needs to know beyond the pod and its owners."""

    def priority_class_exists(self, name: str) -> bool: ...

    def pod_group(self, key: ObjectKey) -> PodGroup | None: ...

    def namespace_labels(self, name: str) -> Mapping[str, str]: ...

    def kind_defaults(self) -> KindDefaults: ...


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod, the owners above it (the direct one first), and the one that decides: the top, or the pod itself."""

    pod: Pod
    owners: tuple[Owner, ...]
    top: Owner
    cluster: Cluster
    options: Options


@dataclass(frozen=True, slots=True)
class Grouping:
    """The group that a pod belongs to, and its sub-group in there; empty: it is a direct member."""

    pod_group: PodGroup
    subgroup: str = ""


Grouper = Callable[[Workload], Grouping]
