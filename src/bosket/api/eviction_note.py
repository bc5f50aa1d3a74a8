"""The record of a pod group's last eviction: the value of the annotation `bosket.dev/last-eviction`, in JSON.

The scheduler writes it when pods have gone; the pod group controller makes a condition of it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api.time import time_or_zero

#: A sentence is cut there: whoever may write pod groups may write anything into the annotation.
_MOST_CHARACTERS: Final = 400


class EvictionNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """An eviction of pods of one pod group that were decided on together."""

    at: str  #: RFC 3339
    action: str  #: that decided it: "reclaim", "preempt", "consolidation", "stalegangeviction"
    why: str = ""  #: the rule, in words
    by: str = ""  #: the pod group that takes the place, as namespace/name; empty where there is none
    pods: int = 1
    lostGpuHours: float = 0.0

    @property
    def seconds(self) -> float:
        """When it was, in epoch seconds; 0 for a time that can't be read."""
        return time_or_zero(self.at)

    @property
    def sentence(self) -> str:
        """By whom, why, and what was lost, in one line."""
        pods = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        for_whom = f" for {self.by}" if self.by else ""
        lost = f"{self.lostGpuHours:.2f} GPU hours of run time were lost" if self.lostGpuHours else ""
        text = "; ".join(filter(None, (f"{pods} evicted at {self.at} by {self.action}{for_whom}", self.why, lost)))
        return " ".join(text.split())[:_MOST_CHARACTERS]

    def encoded(self) -> str:
        """The annotation's value."""
        return msgspec.json.encode(self).decode()


def eviction_note(value: str) -> EvictionNote | None:
    """The note in an annotation; None for one that can't be read."""
    try:
        return msgspec.json.decode(value, type=EvictionNote)
    except (msgspec.DecodeError, RecursionError):
        return None
