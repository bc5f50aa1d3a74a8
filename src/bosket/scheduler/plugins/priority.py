"""Plugin priority: jobs of higher priority first."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.session import Session


class Priority:
    """Orders jobs by the value of their priority class."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.job_order.add(lambda job: -job.job.priority)
