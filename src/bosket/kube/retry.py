"""Retry rules: when a request is sent again, and after how long.

Called by the client for every failed request. Repeated is what was certainly not carried out, and what does no harm
when it is carried out twice. Not repeated: a 409, which the caller must handle, and a 429 by a disruption budget.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from dataclasses import dataclass
from typing import Protocol

from bosket.kube.errors import TransportError
from bosket.kube.transport import Response


class Sleeper(Protocol):
    """The part of a clock that this layer needs. `bosket.runtime.clock.Clock` has it."""

    async def sleep(self, seconds: float) -> None: ...


class LoopSleeper:
    """Sleeps on the running event loop."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def full_jitter(attempt: int, *, base_seconds: float, limit_seconds: float) -> float:
    """Exponential back-off with full jitter: anything up to the delay that doubles with each attempt, from 0."""
    return random.uniform(0.0, min(limit_seconds, base_seconds * 2.0 ** min(attempt, 32)))  # noqa: S311 - not a secret


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent at most, and how long the client waits in between."""

    attempts: int = 5
    base_seconds: float = 0.2
    limit_seconds: float = 10.0
    #: With a longer Retry-After than this the caller gets the error at once.
    longest_retry_after_seconds: float = 60.0

    def delay_after_answer(self, response: Response, attempt: int, *, idempotent: bool) -> float | None:
        """Seconds until a retry, or None for no retry. `attempt` counts from 0."""
        if attempt + 1 >= self.attempts:
            return None
        # 429 and 503 are sent before anything was done; 500 and 504 may come after the write.
        refused = response.status in (429, 503)
        if not refused and not (idempotent and response.status in (500, 504)):
            return None
        if response.status == 429 and b'"DisruptionBudget"' in response.body:
            return None
        back_off = full_jitter(attempt, base_seconds=self.base_seconds, limit_seconds=self.limit_seconds)
        asked_for = retry_after_seconds(response.headers)
        if asked_for is None:
            return back_off
        # Jitter is added to Retry-After, so that clients with the same number don't retry at the same moment.
        return asked_for + back_off if asked_for <= self.longest_retry_after_seconds else None

    def delay_after_failure(self, error: TransportError, attempt: int, *, idempotent: bool) -> float | None:
        """The same for a request without an answer."""
        if attempt + 1 >= self.attempts or (error.maybe_carried_out and not idempotent):
            return None
        return full_jitter(attempt, base_seconds=self.base_seconds, limit_seconds=self.limit_seconds)


def retry_after_seconds(headers: dict[str, str]) -> float | None:
    """The Retry-After header in either of its forms, seconds or a date; None when absent or unreadable."""
    text = headers.get("retry-after")
    if text is None:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
