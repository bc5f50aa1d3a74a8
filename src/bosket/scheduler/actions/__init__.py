"""The actions of a cycle, by the names that the configuration uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bosket.scheduler.actions.allocate import ALLOCATE, allocate
from bosket.scheduler.actions.consolidation import consolidate
from bosket.scheduler.actions.preempt import preempt
from bosket.scheduler.actions.reclaim import reclaim
from bosket.scheduler.actions.stale_gang import evict_stale_gangs
from bosket.scheduler.framework.session import Session

ACTIONS: Mapping[str, Callable[[Session], None]] = {
    ALLOCATE: allocate,
    "consolidation": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "stalegangeviction": evict_stale_gangs,
}
#: Actions that search for victims; they need a plugin that generates scenarios.
SEARCHING: frozenset[str] = frozenset({"consolidation", "reclaim", "preempt"})
