"""How long jobs run: what their users declare, and since when a job runs.

A declared run time is the annotation `bosket.dev/run-time-limit` of the pod group, or `activeDeadlineSeconds` of the
pods, whichever is shorter. Kubernetes enforces the latter; nobody enforces the annotation.
"""

from __future__ import annotations

from bosket.api.keys import RUN_TIME_LIMIT_ANNOTATION
from bosket.api.time import InvalidDuration, InvalidTime, parse_long_duration, parse_time
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task, TaskStatus


def declared_seconds(job: Job) -> float | None:
    """The longest that the job runs, by what its user says; None where nobody says anything that can be read."""
    text = job.group.metadata.annotations.get(RUN_TIME_LIMIT_ANNOTATION)
    deadlines = [task.pod.spec.activeDeadlineSeconds for task in job.tasks]
    said = [float(max(each for each in deadlines if each is not None))] if deadlines and None not in deadlines else []
    try:
        if text:
            said.append(parse_long_duration(text))
    except InvalidDuration:
        pass
    return min((each for each in said if each > 0), default=None)


def running_since(job: Job) -> float | None:
    """Since when all active tasks of the job run; None while one of them doesn't run yet, or none is active."""
    active = [task for task in job.tasks if task.status in ACTIVE_ALLOCATED]
    if not active or any(task.status is not TaskStatus.RUNNING for task in active):
        return None
    starts = [started for task in active if (started := _started(task)) is not None]
    return max(starts, default=job.history.last_started)


def _started(task: Task) -> float | None:
    text = task.pod.status.startTime
    try:
        return parse_time(text) if text else None
    except InvalidTime:
        return None
