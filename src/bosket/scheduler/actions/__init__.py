"""What a cycle does, step by step, by the names that the configuration knows them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bosket.scheduler.actions.allocate import allocate
from bosket.scheduler.framework.session import Session

ACTIONS: Mapping[str, Callable[[Session], None]] = {"allocate": allocate}
