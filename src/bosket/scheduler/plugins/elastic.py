"""Plugin elastic: jobs below their minimum first, then jobs at their minimum, then jobs that only want extras."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session


class Elastic:
    """Orders jobs by how far their pod sets are from their minimum."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.job_order.add(_rank)


def _rank(job: JobState) -> float:
    only = job.only_set
    if only is not None:
        return 0 if only.active < only.minimum else 1 + (only.active > only.minimum)
    states = map(job.in_set, job.job.pod_sets)
    surplus = [state.active - state.minimum for state in states]
    if min(surplus, default=0) < 0:
        return 0
    return 2 if max(surplus, default=0) > 0 else 1
