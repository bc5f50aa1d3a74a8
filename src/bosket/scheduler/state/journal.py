"""Journal: which objects of the live state changed since it was last read.

The flight recorder writes down only what changed between two cycles. It learns from the journal what that is: objects
that came by a watch, and the scheduler's own decisions that count before the API server shows them.
"""

from __future__ import annotations

from bosket.api.object import KubeObject, ObjectKey

Changed = tuple[type[KubeObject], ObjectKey]


class Journal:
    """Keys of changed objects, each once, in the order in which they first changed."""

    def __init__(self) -> None:
        self._changed: dict[Changed, None] = {}

    def note(self, kind: type[KubeObject], key: ObjectKey) -> None:
        """Notes that the object came, changed or went."""
        self._changed[kind, key] = None

    def take(self) -> tuple[Changed, ...]:
        """What changed since the last call."""
        if not self._changed:
            return ()
        changed, self._changed = tuple(self._changed), {}
        return changed
