"""Digests of what a cycle was decided on, and of what it decided: equal digests, equal contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from bosket.api.core import Node
from bosket.api.object import KubeObject, ObjectKey
from bosket.kube.codec import codec_of
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Operation
from bosket.scheduler.recording.object_lists import LISTS

_MODULUS: Final = 1 << 128
#: Of objects and decisions, in bytes.
_SIZE: Final = 16


def decisive(obj: KubeObject) -> KubeObject:
    """The object without what changes on every write and every heartbeat, though nothing of consequence did."""
    metadata = msgspec.structs.replace(obj.metadata, resourceVersion="", managedFields=())
    obj = msgspec.structs.replace(obj, metadata=metadata)
    if isinstance(obj, Node):
        conditions = tuple(msgspec.structs.replace(each, lastHeartbeatTime=None) for each in obj.status.conditions)
        obj = msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, conditions=conditions))
    return obj


def encoded(name: str, obj: KubeObject) -> bytes:
    """An object of the list `name` as a recording has it: without secrets, and without what changes all the time."""
    each = LISTS[name]
    return codec_of(each.kind).encode(decisive(each.redact(obj)))


class ObjectsDigest:
    """The digest of all objects, kept up to date one by one.

    It is the sum of the objects' own digests, so that a change costs the same in a large cluster as in a small one.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, ObjectKey], int] = {}
        self._sum = 0

    def put(self, name: str, key: ObjectKey, document: bytes) -> bool:
        """An object is there, encoded so; whether that is news."""
        part = int.from_bytes(hashlib.blake2b(document, digest_size=_SIZE).digest(), "big")
        before = self._parts.get((name, key))
        if before == part:
            return False
        self._parts[name, key] = part
        self._sum = (self._sum + part - (before or 0)) % _MODULUS
        return True

    def drop(self, name: str, key: ObjectKey) -> bool:
        """An object is gone; whether that is news."""
        before = self._parts.pop((name, key), None)
        self._sum = (self._sum - (before or 0)) % _MODULUS
        return before is not None

    @property
    def text(self) -> str:
        return f"{self._sum:032x}"


def decisions_digest(decisions: Decisions) -> str:
    """The digest of everything that was decided and reported; costs and statistics aside."""
    content = (
        [_operation(each) for each in decisions.operations],
        [
            (*each.job.key, len(each.tasks), sorted(reason.code for reason in each.reasons))
            for each in decisions.waiting
        ],
        [each.key for each in decisions.placed],
        [each.key for each in decisions.settled],
        [each.key for each in decisions.started],
        [(*each.job.key, each.since, each.is_due) for each in decisions.stale],
        [each.key for each in decisions.recovered],
        [each.key for each in decisions.passed_over],
        sorted(decisions.queue_allocated.items()),
        sorted(decisions.fair_share.items()),
    )
    return hashlib.blake2b(msgspec.json.encode(content), digest_size=_SIZE).hexdigest()


def _operation(each: Operation) -> Iterable[object]:
    what = (type(each).__name__, *each.task.key, each.node)
    if isinstance(each, Bind):
        return (*what, each.gpu_groups, each.gpu_portion, each.claims, each.numa_zones, each.volumes)
    if isinstance(each, Eviction):
        return (*what, each.action, each.preemptor.key if each.preemptor else None, each.moves_to)
    return (*what, each.action, each.gpu_groups)
