"""The interface of a store of usage history: what had the queues used, as of a time?

`live` asks a store in the background; `stores.open_source` makes the store that the configuration names. A store
opens files and connections at the first `fetch`, so that an unreachable store fails one answer and not the start of the
scheduler.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.history import Sample


class UsageUnavailable(Exception):
    """The store has no answer now; the message says why. The last answer goes on to count."""


class UsageSource(Protocol):
    """A store of what queues held in the past."""

    async def fetch(self, now: float) -> Usage:
        """The use of the window that ends at `now` (epoch seconds); raises `UsageUnavailable`. May be cancelled."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class SampledSource(UsageSource, Protocol):
    """A store that is filled by the scheduler's own samples."""

    @property
    def sample_interval_seconds(self) -> float: ...

    async def record(self, sample: Sample) -> None:
        """Stores what queues hold now; raises `UsageUnavailable` when it will not survive the process."""
        ...
