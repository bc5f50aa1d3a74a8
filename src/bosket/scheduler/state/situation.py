"""Situation: a digest of what the preemption history depends on: nodes, queues, priorities and topologies.

The live state drops the history when one of these changes. A scheduler that restores a memory did not see the changes,
so it compares digests. The digest is the same in every process, and covers exactly the fields that the live state
compares when an object changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from bosket.api.core import Node
from bosket.api.kai import Queue, Topology
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s import PriorityClass
from bosket.scheduler.state.node_accounts import fixed_part

T = TypeVar("T", bound=KubeObject)
_DIGEST_BYTES: Final = 16


class Situation:
    """Digests per object are kept while the object is the same, so the whole costs one look at each."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        queues: Mapping[str, Queue],
        priorities: Mapping[str, PriorityClass],
        topologies: Mapping[str, Topology],
    ) -> None:
        """The owners' own tables, by name."""
        self._parts: tuple[tuple[Mapping[str, Any], Callable[[Any], object]], ...] = (
            (nodes, _of_node),
            (queues, lambda queue: (queue.metadata.uid, queue.spec)),
            (priorities, lambda priority: (priority.value, priority.globalDefault)),
            (topologies, lambda topology: topology.spec),
        )
        self._known: list[dict[str, tuple[KubeObject, bytes]]] = [{} for _ in self._parts]

    def digest(self) -> str:
        whole = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for index, (objects, what_counts) in enumerate(self._parts):
            self._known[index] = known = _digests(objects, what_counts, self._known[index])
            for name in sorted(known):
                whole.update(known[name][1])
            whole.update(b"\0")
        return whole.hexdigest()


def _digests(
    objects: Mapping[str, T],
    what_counts: Callable[[T], object],
    before: Mapping[str, tuple[KubeObject, bytes]],
) -> dict[str, tuple[KubeObject, bytes]]:
    found = {}
    for name, obj in objects.items():
        last = before.get(name)
        found[name] = last if last is not None and last[0] is obj else (obj, _digest((name, what_counts(obj))))
    return found


def _digest(value: object) -> bytes:
    # Sorted: equal maps and sets must give equal digests.
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=_DIGEST_BYTES).digest()


def _of_node(node: Node) -> Iterable[object]:
    return (node.status.allocatable, *fixed_part(node))
