"""Fair shares out: into the status of queues, where `kubectl get queues` shows them beside what is in use.

Shares change a little with every job that comes or goes, and all the time where they depend on past usage. So a queue
is written only when its share of something has changed by a part that people would notice, some time after the cycle,
and with the pace that `StatusWriter` has for numbers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from bosket.api.kai import Queue, QueueFairShare
from bosket.api.object import ObjectKey
from bosket.kube.client import Client
from bosket.runtime.clock import Clock
from bosket.scheduler.io.status_writer import DELAY_SECONDS, NUMBERS_PER_SECOND, PendingWrite, StatusWriter
from bosket.scheduler.model.queue import MEGABYTE
from bosket.scheduler.model.resource import QueueAmounts

_log = logging.getLogger(__name__)

#: After a cycle shares are compared with what is written no sooner than that.
GATHER_SECONDS: Final = 10.0
#: A share that differs from the one that is written by less than this part of it is left as it is.
NOTICED_PART: Final = 0.01
#: A change of so large a part isn't held back as numbers are that change all the time.
LARGE_PART: Final = 0.25


class FairShareWriter:
    """Writes `status.fairShare` of queues in the background. What is refused isn't tried again until it changes."""

    def __init__(self, client: Client, clock: Clock, status: StatusWriter) -> None:
        self._client, self._clock, self._status = client, clock, status
        self._written: dict[str, QueueFairShare] = {}
        self._shares: Mapping[str, QueueAmounts] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            try:
                self._write_all()
            except Exception:
                _log.exception("fair shares could not be written")

    def start_anew(self) -> None:
        """Another process may have written meanwhile."""
        self._written = {}

    def decided(self, fair_share: Mapping[str, QueueAmounts]) -> None:
        """Shares are these from now on, by name of the queue."""
        if fair_share != self._shares:
            self._shares = fair_share
            self._changed.set()

    def _write_all(self) -> None:
        self._written = {name: share for name, share in self._written.items() if name in self._shares}
        submitted = 0
        for name, amounts in self._shares.items():
            if not all(map(math.isfinite, amounts)):
                continue  # no plugin divides shares: queues may use whatever is there
            share = QueueFairShare(
                gpu=round(amounts[0], 2), cpu=float(round(amounts[1])), memory=float(round(amounts[2] / MEGABYTE))
            )
            change = _change(self._written.get(name), share)
            if change <= NOTICED_PART:
                continue
            content = (f"{share.gpu} {share.cpu} {share.memory}",)
            delay = DELAY_SECONDS + submitted / NUMBERS_PER_SECOND  # a new leader begins with all of them
            refused = partial(self._written.__setitem__, name, share)
            pending = PendingWrite(content, self._write(name, share), refused, numbers_only=change < LARGE_PART)
            self._status.submit(("Queue", ObjectKey("", name)), pending, delay_seconds=delay)
            submitted += 1

    def _write(self, name: str, share: QueueFairShare) -> Callable[[], Awaitable[None]]:
        async def write() -> None:
            await self._client.patch(Queue, name, {"status": {"fairShare": share}}, subresource="status")
            self._written[name] = share

        return write


def _change(before: QueueFairShare | None, after: QueueFairShare) -> float:
    """By which part of itself a share changes, of the resource that changes most: 1 for one that begins or ends."""
    if before is None:
        return 1.0
    pairs = ((before.gpu, after.gpu), (before.cpu, after.cpu), (before.memory, after.memory))
    return max(abs(one - other) / max(abs(one), abs(other)) if one != other else 0.0 for one, other in pairs)
