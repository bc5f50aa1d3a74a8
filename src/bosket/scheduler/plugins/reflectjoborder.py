"""Plugin reflectjoborder: `GET /get-job-order`, the order of pending jobs over all queues and in each of them.

The order in which `allocate` would try jobs if none could be placed: ready jobs with pending tasks, at most as many of
a queue as the action may try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from bosket.runtime.local_server import Answer
from bosket.scheduler.framework.endpoint import Endpoint, Insight
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.scheduler.framework.session import Session


class ReflectJobOrder(Endpoint):
    """Gives the order out."""

    path: ClassVar = "/get-job-order"

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    async def answer(self, insight: Insight) -> Answer:
        session = insight.open_session()
        order = await asyncio.to_thread(job_order, session)
        return Answer(msgspec.json.format(msgspec.json.encode(order), indent=2) + b"\n")


def job_order(session: Session) -> dict[str, Any]:
    """The order in a fresh session, which is used up by it."""
    session.action = "allocate"
    turns = JobsByQueue(session, session.jobs.candidates())
    everywhere: list[dict[str, Any]] = []
    by_queue: dict[str, list[dict[str, Any]]] = {}
    while (state := turns.pop()) is not None:
        entry = {"id": str(state.job.key), "priority": state.job.priority}
        everywhere.append(entry)
        by_queue.setdefault(state.job.queue, []).append(entry)
    return {"global_order": everywhere, "queue_order": by_queue}
