"""What a cycle does, step by step, by the names that the configuration knows them by."""

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
#: Those that look for victims, which without a generator of scenarios they never find.
SEARCHING: frozenset[str] = frozenset({"consolidation", "reclaim", "preempt"})
