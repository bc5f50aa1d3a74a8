"""Jobs for which no victims were found, so that others that are no easier aren't tried.

Jobs are alike when nodes and plugins treat their pending tasks alike, whatever these ask for; of each kind the smallest
that failed is remembered.
"""

from __future__ import annotations

from collections.abc import Hashable

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.model.task import Task


class FailedJobs:
    """What was tried in vain."""

    def __init__(self) -> None:
        self._smallest: dict[Hashable, list[Vector]] = {}

    def is_worth_trying(self, job: JobState) -> bool:
        smallest = self._smallest.get(_kind(job))
        return smallest is None or _is_easier(_requests(job), smallest)

    def add(self, job: JobState) -> None:
        kind, requests = _kind(job), _requests(job)
        smallest = self._smallest.get(kind)
        if smallest is None or _is_smaller(requests, smallest):
            self._smallest[kind] = requests


def _kind(job: JobState) -> Hashable:
    """What pending tasks have in common with those of another job, their requests apart."""
    kinds: dict[str, list[tuple[object, ...]]] = {pod_set.name: [] for pod_set in job.job.pod_sets}
    for task in job.left_over():
        kinds[job.pod_set(task).name].append(task.pod_class.kind)
    return tuple(sorted(tuple(sorted(each)) for each in kinds.values()))


def _requests(job: JobState) -> list[Vector]:
    tasks: list[Task] = job.left_over()
    return sorted((task.pod_class.request for task in tasks), key=tuple)


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
    """Whether one asks for no more than the other; vectors made earlier may be shorter."""
    common = min(len(left), len(right))
    return bool((left[:common] <= right[:common]).all() and not left[common:].any())
