"""What YuniKorn wants to be told of an application, in an annotation of its pods: there is no kind for it."""

from __future__ import annotations

from bosket.api.core.affinity import Affinity, Toleration
from bosket.api.object import Wire
from bosket.api.quantity import Quantity


class TaskGroup(Wire):
    """Pods that are alike, as YuniKorn wants to be told of them."""

    name: str
    minMember: int
    minResource: dict[str, Quantity]
    nodeSelector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
