"""Group commit: writes that arrive during a commit are written by the next one together.

The store tells the journal of each write as it happens (`record`). A thread of its own keeps them in groups, so that
many writes share one wait for the disk. Nobody outside hears of a write before it is kept: answers and watch events
wait for `settle`. So what was ever seen is there after a crash, and no version is ever given out twice.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from queue import SimpleQueue
from typing import Final

from bosket.apiserver.persistence.database import Database, StorageError
from bosket.apiserver.persistence.row import Row
from bosket.apiserver.store.resource_store import Event

log = logging.getLogger(__name__)

#: Writes that are kept as history at the least, for watches that resume after a restart.
KEPT_HISTORY: Final = 10_000
#: History is dropped when there is this much more of it than is kept at the least.
_SURPLUS: Final = 0.2
#: Writes of one commit.
_BATCH: Final = 2_000


class Journal:
    """Appends writes to the file. After the first failure no write settles any more: memory is ahead of the disk."""

    def __init__(self, database: Database, version: int, *, kept_history: int = KEPT_HISTORY) -> None:
        """`version` is the last one that the database has."""
        self._database = database
        self._kept_history = kept_history
        self._horizon = database.horizon
        self._recorded = version
        self._durable = version
        self._failure: StorageError | None = None
        self._queue: SimpleQueue[Row | None] = SimpleQueue()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    # on the server's side

    def record(self, event: Event) -> None:
        """Keep what an event tells; soon, and in the order of these calls."""
        entry, previous = event.entry, event.previous
        self._recorded = event.version
        self._queue.put(
            Row(
                event.version,
                0 if previous is None else previous.version,
                event.type == "DELETED",
                event.resource_store.group,
                event.resource_store.plural,
                entry.namespace,
                entry.name,
                entry.creator,
                entry.encoded,
            )
        )

    @property
    def settled(self) -> bool:
        """Whether everything that was recorded is kept."""
        return self._durable == self._recorded and self._failure is None

    async def settle(self) -> None:
        """Until what has been recorded so far is kept; raises if it can't be."""
        self._loop = asyncio.get_running_loop()  # before looking, so that the thread's next news isn't missed
        if self.settled:
            return
        if self._failure is not None:
            raise self._failure
        waiter = self._loop.create_future()
        self._waiting.append((self._recorded, waiter))
        await waiter

    async def wait_failed(self) -> None:
        """Until something can't be kept; raises why."""
        self._loop = asyncio.get_running_loop()
        if self._failure is None:
            await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    def close(self) -> None:
        """Keep what was recorded, and no more."""
        self._queue.put(None)
        self._thread.join()

    def _tell(self) -> None:
        """On the loop: something was kept, or couldn't be."""
        if self._failure is not None:
            self._failed.set()
        while self._waiting and (self._waiting[0][0] <= self._durable or self._failure is not None):
            version, waiter = self._waiting.popleft()
            if waiter.done():
                continue
            if version <= self._durable:
                waiter.set_result(None)
            elif self._failure is not None:
                waiter.set_exception(self._failure)

    # the thread

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if not batch:
                continue
            try:
                self._database.append(batch)
                self._durable = batch[-1].version
                self._announce()
                self._compact()
            except StorageError as error:
                log.error("nothing can be kept any more: %s", error)
                self._failure = error
                self._announce()
                return

    def _next_batch(self) -> list[Row] | None:
        """What waits, at least one write; None at the end."""
        first = self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < _BATCH and not self._queue.empty():
            row = self._queue.get()
            if row is None:
                self._queue.put(None)
                break
            batch.append(row)
        return batch

    def _compact(self) -> None:
        wanted = self._durable - self._kept_history
        if wanted - self._horizon >= self._kept_history * _SURPLUS:
            self._database.compact(wanted)
            self._horizon = wanted

    def _announce(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._tell)
            except RuntimeError:
                log.debug("the loop was closed before the last write was kept")
