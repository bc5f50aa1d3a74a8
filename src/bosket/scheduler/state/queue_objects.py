"""Queue objects: which of them are ignored because they make no sense, and the tree of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bosket.api.kai import Queue as QueueObject
from bosket.api.object import ObjectKey
from bosket.kube.access import annotations_of_rule
from bosket.scheduler.model.queue import Queue, QueueError, QueueTree, build_tree, queue_from, without_hierarchy


class QueueObjects:
    """All queues; the tree is rebuilt when one of them changed."""

    def __init__(self, report: Callable[[str], None], *, full_hierarchy: bool) -> None:
        """`full_hierarchy`: whether queues share by levels, or as if all were siblings."""
        self._report, self._full_hierarchy = report, full_hierarchy
        self.objects: dict[str, QueueObject] = {}
        self._queues: dict[str, Queue] = {}
        self._refused: dict[str, str] = {}
        self._tree: QueueTree | None = None

    def put(self, obj: QueueObject) -> bool:
        """True when something relevant changed; its status is not."""
        name = obj.metadata.name
        before = self.objects.get(name)
        self.objects[name] = obj
        if before is not None and before.spec == obj.spec and before.metadata.uid == obj.metadata.uid:
            if annotations_of_rule(before.metadata.annotations) == annotations_of_rule(obj.metadata.annotations):
                return False
            self._tree = None  # access rules are part of a snapshot
            return True
        self._forget(name)
        try:
            self._queues[name] = queue_from(obj)
        except QueueError as error:
            self._refused[name] = str(error)
            self._report(str(error))
        return True

    def drop(self, name: str) -> bool:
        """True when the queue existed."""
        known = self.objects.pop(name, None) is not None
        self._forget(name)
        return known

    @property
    def unread(self) -> Iterator[ObjectKey]:
        """Queues that are invalid by themselves; not those whose parent is missing."""
        return (ObjectKey("", name) for name in self._refused)

    def is_unchanged(self) -> bool:
        """Whether `tree()` would return the same tree as last time."""
        return self._tree is not None

    def tree(self) -> QueueTree:
        if self._tree is None:
            queues = self._queues.values()
            self._tree = build_tree(queues if self._full_hierarchy else without_hierarchy(queues), self._refused)
        return self._tree

    def _forget(self, name: str) -> None:
        self._queues.pop(name, None)
        self._refused.pop(name, None)
        self._tree = None
