"""node.k8s.io/v1: runtimes that pods can ask for, with what they cost and where they are."""

from __future__ import annotations

from bosket.api.core.affinity import Toleration
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity


class Overhead(Wire):
    """What a runtime takes on top of a pod's containers."""

    podFixed: dict[str, Quantity] = {}


class Scheduling(Wire):
    """The nodes that have a runtime."""

    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(KubeObject):
    """A container runtime that pods can ask for."""

    handler: str = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
