"""Telling two cancellations apart.

A loop that must not die catches what its work raises. `asyncio.CancelledError` may mean that the loop itself is to
end, or only that something the work waited for was cancelled by others; taking one for the other either loses a
worker without a word or makes a process that can't be stopped.
"""

from __future__ import annotations

import asyncio


def being_cancelled() -> bool:
    """Whether the current task itself was asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
