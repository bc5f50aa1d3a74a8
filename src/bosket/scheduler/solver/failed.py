"""FailedJobs: jobs for which no victims were found, so that equal or larger jobs aren't tried.

Jobs are alike when nodes and plugins treat their pending tasks alike, whatever the amounts; of each kind the smallest
failed job is kept. Jobs are tried in order of priority, so a later job has no better chance. As in KAI, a failed
non-preemptible job also stands for preemptible ones, GPU memory isn't compared, and the kind of a job is that of its
pending tasks at the start of the cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.model.task import ClassIndex, PodClass
from bosket.scheduler.solver.job_kind import JobKinds, waiting_at_first

Makeup = tuple[tuple[ClassIndex, int], ...]  #: how many pending tasks of which class


class FailedJobs:
    """The jobs that were tried in vain."""

    def __init__(self, kinds: JobKinds) -> None:
        self._kinds = kinds
        self._smallest: dict[Hashable, list[Vector]] = {}
        self._not_easier: set[Hashable] = set()  # what was compared, until something smaller fails

    def is_worth_trying(self, job: JobState) -> bool:
        if not self._smallest:
            return True
        makeup = _makeup(job)
        if makeup in self._not_easier:
            return False
        smallest = self._smallest.get(self._kinds.of(job))
        if smallest is None or _is_easier(_requests(job), smallest):
            return True
        self._not_easier.add(makeup)
        return False

    def add(self, job: JobState) -> None:
        kind, requests = self._kinds.of(job), _requests(job)
        smallest = self._smallest.get(kind)
        if smallest is None or _is_smaller(requests, smallest):
            self._smallest[kind] = requests
            self._not_easier.clear()


def _requests(job: JobState) -> list[Vector]:
    return sorted((task.pod_class.demand_by(None) for task in job.left_over()), key=tuple)


def _makeup(job: JobState) -> Hashable:
    """A key of everything that is compared here."""
    alone = _alone(job)
    if alone is not None:
        return alone
    waiting: dict[str, Counter[PodClass]] = {pod_set.name: Counter() for pod_set in job.job.pod_sets}
    for task in job.left_over():
        waiting[job.pod_set(task).name][task.pod_class] += 1
    return job.job.topologies(), _numbered(waiting.values()), _numbered(waiting_at_first(job))


def _alone(job: JobState) -> tuple[ClassIndex, int] | None:
    """The class and number of a job's tasks, if these are all there is to compare, as for most jobs."""
    only = job.job.pod_sets[0]
    if only.only_class is None or len(only.pending) != len(only.tasks) or job.next_alike() is None:
        return None
    return only.only_class.index, len(only.tasks)


def _numbered(by_set: Iterable[Counter[PodClass]]) -> tuple[Makeup, ...]:
    return tuple(sorted(tuple(sorted((each.index, count) for each, count in classes.items())) for classes in by_set))


def _is_easier(mine: list[Vector], others: list[Vector]) -> bool:
    if not mine or not others:
        return False
    if len(others) > len(mine):
        return True
    for my, other in zip(mine, others, strict=False):
        if _within(my, other):
            if _within(other, my):
                continue
            return True
    return False


def _is_smaller(mine: list[Vector], others: list[Vector]) -> bool:
    if not mine or not others or len(mine) > len(others):
        return False
    return all(_within(my, other) for my, other in zip(mine, others, strict=False))


def _within(left: Vector, right: Vector) -> bool:
    """Whether one request is no larger than the other; older vectors may be shorter."""
    common = min(len(left), len(right))
    return bool((left[:common] <= right[:common]).all() and not left[common:].any())
