"""Plugin subgrouporder: sub-groups below their minimum first, then those with the smallest part of their request."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet


class SubGroupOrder:
    """Orders sub-groups by how far they are from their minimum."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        del arguments

    def open(self, session: Session) -> None:
        session.extensions.subgroup_order.add(_rank)


def _rank(job: JobState, subgroup: PodSet | SubGroupSet) -> tuple[float, ...]:
    if isinstance(subgroup, PodSet):
        state = job.in_set(subgroup)
        have, threshold = state.active, state.minimum
    else:
        have, threshold = sum(map(job.satisfied, subgroup.children)), job.min_children(subgroup)
    if have < threshold:
        return (0.0, 0.0)
    return (1.0, have / threshold) if threshold > 0 else (2.0, float(have))
