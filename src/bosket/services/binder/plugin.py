"""What happens around a bind: the seam for volumes, DRA claims and shared GPUs.

For each attempt the binder calls `pre_bind` of every plugin, highest priority first, then binds, then calls
`post_bind` in the same order. When anything fails before the bind took effect, `rollback` is called in the reverse
order on every plugin whose `pre_bind` was begun.

The process may end at any point and the attempt begins anew elsewhere, so all three must do no harm when they are
called again for the same pod and node. That also happens within an attempt, when the pod changed before it was bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from bosket.api import keys
from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey


class NotYet(Exception):
    """Raised by `pre_bind` when others must do something first: the attempt is put off, and nothing taken back.

    It is begun again after `seconds`, or when the plugin has the request come again.
    """

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Refused(Exception):
    """A plugin's reason why the attempt fails. `final`: another one would fail for the same reason."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


@dataclass(slots=True)
class Attempt:
    """One attempt to carry out a request."""

    request: BindRequest
    #: As last read or written; a plugin that writes it puts the new version here.
    pod: Pod
    node: Node
    #: Set by a plugin that prepared the pod: the bind takes effect only on the pod in this version.
    pod_version: str = ""
    #: Put on the pod by the bind itself, in the same write.
    annotations: dict[str, str] = field(default_factory=dict)


class BindPlugin:
    """Does nothing; a plugin overrides what it needs."""

    name: ClassVar[str]
    #: Higher ones are called first; ties go by name.
    priority: int = 0
    #: Values of `spec.receivedResourceType` that can be carried out thanks to this plugin.
    resource_types: ClassVar[frozenset[str]] = frozenset()

    def attend(self, come_again: Callable[[ObjectKey], None]) -> None:
        """Called once, before anything else: how a plugin has a request that it put off looked at again."""

    async def run(self) -> None:
        """What the plugin does beside the binds, until cancelled; called once all informers have seen everything."""

    async def pre_bind(self, attempt: Attempt) -> None:
        """Prepare the pod for its node; what is raised fails the attempt, `NotYet` apart."""

    async def post_bind(self, attempt: Attempt) -> None:
        """The pod has its node. That can't be undone any more: what is raised is only logged."""

    async def rollback(self, attempt: Attempt) -> None:
        """Take back what `pre_bind` did, as far as it came."""


class ReceivedResource(BindPlugin):
    """Writes annotations that KAI's components and the NUMA exporter read: the kind of resource that the pod was given,
    and the NUMA zones that the scheduler expects."""

    name = "receivedresource"
    # MIG instances are extended resources: the kubelet hands them out, and there is nothing to prepare.
    resource_types: ClassVar[frozenset[str]] = frozenset({"", "Regular", "MigInstance"})

    async def pre_bind(self, attempt: Attempt) -> None:
        spec = attempt.request.spec
        if spec.receivedResourceType:
            attempt.annotations[keys.RECEIVED_RESOURCE_TYPE_ANNOTATION] = spec.receivedResourceType
        if spec.predictedNUMAZones:
            attempt.annotations[keys.NUMA_PREDICTED_ANNOTATION] = msgspec.json.encode(spec.predictedNUMAZones).decode()
