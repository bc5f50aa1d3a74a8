"""YuniKorn's description of an application: an annotation of its pods, because YuniKorn has no kind for it."""

from __future__ import annotations

from bosket.api.core.affinity import Affinity, Toleration
from bosket.api.object import Wire
from bosket.api.quantity import Quantity


class TaskGroup(Wire):
    """A task group: pods of one shape, in YuniKorn's annotation."""

    name: str
    minMember: int
    minResource: dict[str, Quantity]
    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
