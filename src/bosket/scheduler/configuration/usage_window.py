"""Which part of the past counts: a window that ends now, and begins where its kind says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bosket.api.cron import Cron


class Window(Protocol):
    """A window of time. What happened at its very beginning is before it."""

    def start(self, now: float) -> float:
        """When the window that `now` is in began, in epoch seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Sliding:
    """The last so many seconds."""

    size_seconds: float

    def start(self, now: float) -> float:
        return now - self.size_seconds


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, one after the other since `origin`. Before that there is none: nothing counts."""

    size_seconds: float
    origin: float

    def start(self, now: float) -> float:
        if now < self.origin:
            return now
        return self.origin + (now - self.origin) // self.size_seconds * self.size_seconds


@dataclass(frozen=True, slots=True)
class SinceFiring:
    """Since a cron expression last fired."""

    cron: Cron

    def start(self, now: float) -> float:
        return self.cron.last_firing(now)
