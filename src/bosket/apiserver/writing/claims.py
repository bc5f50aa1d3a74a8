"""Claims of objects: a write that lost a race goes before later writes.

A change that names no version is worked out anew when the object changed while webhooks were asked about it, as
kube-apiserver does until the request's time is over. An object that others write all the time (a controller its status)
would keep a slow webhook's answers from ever being of use: so `Writer` claims the object after the first loss.

A claim is a courtesy, not a lock: who waits for it goes on after a while, because a webhook may itself have to write
the object before it answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from bosket.runtime.keyed_lock import KeyedLock

#: How long others let a claim go first; most webhooks answer sooner.
_PATIENCE_SECONDS: Final = 5.0


class StorageKey(NamedTuple):
    """Where an object is: API group, plural, namespace, name."""

    group: str
    plural: str
    namespace: str
    name: str


class WriteClaims:
    """Claims of objects, by place."""

    def __init__(self) -> None:
        self._locks: KeyedLock[StorageKey] = KeyedLock()
        self._claims: Counter[StorageKey] = Counter()

    async def wait(self, key: StorageKey) -> None:
        """Let those go first who claim the object, for a while."""
        if key not in self._claims:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS), self._locks.hold(key):
                pass

    @asynccontextmanager
    async def claim(self, key: StorageKey) -> AsyncIterator[None]:
        """Go before all who come later, and after those who claimed the object sooner."""
        self._claims[key] += 1
        try:
            async with self._locks.hold(key):
                yield
        finally:
            self._claims[key] -= 1
            if not self._claims[key]:
                del self._claims[key]
