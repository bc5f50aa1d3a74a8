"""What evictions throw away: the GPU time since a pod started."""

from __future__ import annotations

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.model.task import WAITING, Task


def lost_gpu_seconds(now: float, job: JobState, task: Task) -> float:
    """GPU seconds that a pod has run for: since its job started, or since it was made if that was later or isn't known.

    Asked before the pod's eviction has been decided, or while it counts as going from where it runs.
    """
    if task.status in WAITING:
        return 0.0  # it has its place since this cycle only
    since = max(job.job.history.last_started or 0.0, task.created)
    gpus = (job.cost(task) if task.pod_class.share is not None else task.pod_class.charge)[0]
    return max(0.0, now - since) * gpus
