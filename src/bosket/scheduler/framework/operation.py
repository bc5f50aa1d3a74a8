"""One operation of a statement, with what is needed to undo it."""

from __future__ import annotations

import msgspec

from bosket.scheduler.framework.extension import Kind
from bosket.scheduler.framework.job_state import JobState, Placement
from bosket.scheduler.framework.ledger import Column, DevicesBefore, QueueAccounts
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import WAITING, Task


class Operation(msgspec.Struct, frozen=True, eq=False):
    """What was done with a task, and the values needed to undo it."""

    kind: Kind
    job: JobState
    task: Task
    row: NodeRow  #: of the node that it was placed on or taken from; NOWHERE for one that isn't ours
    before: Placement  #: of the task, before the operation
    column: Column
    accounts: QueueAccounts
    devices: DevicesBefore | None  #: of a task that shares GPUs
    gpu_groups: tuple[str, ...]


def lost_gpu_seconds(now: float, job: JobState, task: Task) -> float:
    """GPU seconds that a pod has run for: since its job started, or since it was made if that was later or isn't known.

    Asked before the pod's eviction has been decided, or while it counts as going from where it runs.
    """
    if task.status in WAITING:
        return 0.0  # it has its place since this cycle only
    since = max(job.job.history.last_started or 0.0, task.created)
    gpus = (job.cost(task) if task.pod_class.share is not None else task.pod_class.charge)[0]
    return max(0.0, now - since) * gpus
