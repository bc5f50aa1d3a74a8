"""Work that the server does by itself, behind the requests: a set of keys to look at, and a loop that looks at them."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from bosket.runtime.clock import Clock

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

#: Keys handled before others get a turn.
_BATCH = 50
_RETRY_SECONDS = 1.0


class Chore(ABC, Generic[K]):
    """Handles keys one after another, each once however often it was added. Subclasses say what handling means."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._pending: dict[K, None] = {}
        self._wake = asyncio.Event()

    def add(self, key: K) -> None:
        self._pending[key] = None
        self._wake.set()

    @abstractmethod
    async def handle(self, key: K) -> None:
        """Do what is to be done about a key; look at the store, not at why it was added."""

    async def run(self) -> None:
        """Until cancelled. What fails is logged and tried again, after the others."""
        while True:
            await self._wake.wait()
            handled = 0
            failed: list[K] = []
            while self._pending:
                key = next(iter(self._pending))
                del self._pending[key]
                try:
                    await self.handle(key)
                except Exception:
                    log.exception("%s: %s failed", type(self).__name__, key)
                    failed.append(key)
                handled += 1
                if handled % _BATCH == 0:
                    await asyncio.sleep(0)
            self._wake.clear()
            if failed:
                await self.clock.sleep(_RETRY_SECONDS)
                for key in failed:
                    self.add(key)
