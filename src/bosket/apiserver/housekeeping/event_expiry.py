"""Events are kept for an hour after they were last written."""

from __future__ import annotations

from collections import deque

from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.runtime.clock import Clock

EVENT_SECONDS = 3600.0
_ROUND_SECONDS = 10.0


class EventExpiry:
    """Deletes the objects of one resource some time after their last write."""

    def __init__(self, clock: Clock, resource_store: ResourceStore, seconds: float = EVENT_SECONDS) -> None:
        self._clock = clock
        self._objects = resource_store
        self._seconds = seconds
        #: when, which object, and the version that must still be current; in order of time
        self._due: deque[tuple[float, str, str, int]] = deque()
        resource_store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.type != "DELETED":
            due = self._clock.now() + self._seconds
            self._due.append((due, event.entry.namespace, event.entry.name, event.version))

    def sweep(self) -> None:
        """Remove what is due."""
        now = self._clock.now()
        while self._due and self._due[0][0] <= now:
            _, namespace, name, version = self._due.popleft()
            entry = self._objects.get(namespace, name)
            if entry is not None and entry.version == version:
                self._objects.remove(entry)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_ROUND_SECONDS)
            self.sweep()
