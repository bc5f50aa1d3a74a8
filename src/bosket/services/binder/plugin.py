"""BindPlugin: what happens around a bind: volumes, DRA claims, shared GPUs.

For each attempt the binder calls `pre_bind` of every plugin, highest priority first, then binds, then calls `post_bind`
in the same order. When anything fails before the bind, `rollback` is called in the reverse order on every plugin whose
`pre_bind` was started.

The process may die at any point and the attempt starts again elsewhere, so all three must be idempotent for the same
pod and node. They are also repeated within an attempt when the pod changed before it was bound.
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
    """Raised by `pre_bind` when something else must happen first: the attempt is postponed, and nothing is rolled back.

    It starts again after `seconds`, or when the plugin enqueues the request.
    """

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Refused(Exception):
    """The attempt fails, with this reason. `final`: another attempt would fail for the same reason."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


@dataclass(slots=True)
class Attempt:
    """One attempt at a request."""

    request: BindRequest
    #: the pod as last read or written; a plugin that writes the pod sets the new version
    pod: Pod
    node: Node
    #: set by a plugin that prepared the pod: the bind insists on this resourceVersion
    pod_version: str = ""
    #: annotations that the bind adds to the pod in the same write
    annotations: dict[str, str] = field(default_factory=dict)


class BindPlugin:
    """A plugin without effect; subclasses override what they need."""

    name: ClassVar[str]
    #: Higher ones are called first; ties go by name.
    priority: int = 0
    #: Values of `spec.receivedResourceType` that can be carried out thanks to this plugin.
    resource_types: ClassVar[frozenset[str]] = frozenset()

    def attend(self, come_again: Callable[[ObjectKey], None]) -> None:
        """Called once, first: `add` enqueues a request that the plugin postponed."""

    async def run(self) -> None:
        """Background work of the plugin until cancelled; called once all informers are synced."""

    async def pre_bind(self, attempt: Attempt) -> None:
        """Prepares the pod for its node; an exception fails the attempt, except `NotYet`."""

    async def post_bind(self, attempt: Attempt) -> None:
        """Called after the bind, which can't be undone: exceptions are only logged."""

    async def rollback(self, attempt: Attempt) -> None:
        """Reverts what `pre_bind` did, as far as it came."""


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
