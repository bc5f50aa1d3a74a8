"""scheduling.run.ai/v2 Queue: who may use how much. Queues form a tree of any depth; only leaves hold jobs."""

from __future__ import annotations

from typing import Annotated, ClassVar

from bosket.api.crd_marks import AGE, Column, Duration, Int32, Rule, Timestamp, schema
from bosket.api.object import KubeObject, Wire
from bosket.api.quantity import Quantity
from bosket.api.resource import Resource

#: of quota and limit: as much as there is
UNLIMITED = -1.0

# KAI's own schema lets any number pass; a quota of -5 would then count as the smallest quota there is.
_Amount = Annotated[
    float,
    schema(
        minimum=-1,
        rules=(Rule("self <= -1.0 || self >= 0.0", "must be 0 or more, or -1 for unlimited"),),
    ),
]
_Weight = Annotated[float, schema(minimum=0)]


class QueueResource(Wire):
    """A queue's share of one resource. Quota and weight that are left out are 0; without a limit there is none."""

    quota: _Amount = 0.0
    """What the queue is owed, whoever else wants it; -1 is unlimited."""
    overQuotaWeight: _Weight = 0.0
    """Share of what is left over after all quotas are served, relative to the sibling queues; 0 gets none."""
    # KAI's Go reads 0 where it is left out, and nothing runs; but its documentation has such queues, with jobs in them.
    limit: _Amount | None = None
    """What the queue may use at most; -1, also when left out, is unlimited, and 0 is nothing."""

    @property
    def most(self) -> float:
        """The limit that counts: `UNLIMITED` where none is given."""
        return UNLIMITED if self.limit is None else self.limit


class QueueResources(Wire):
    """A queue's shares by resource, each in the unit that KAI uses."""

    gpu: QueueResource = QueueResource()
    """In GPUs; fractions are allowed."""
    cpu: QueueResource = QueueResource()
    """In thousandths of a core."""
    memory: QueueResource = QueueResource()
    """In megabytes of 10^6 bytes."""


class QueueSpec(Wire):
    """What a queue is entitled to, and where it stands in the tree."""

    displayName: str = ""
    """Name for people, in messages; the queue's identity is its metadata.name."""
    parentQueue: str = ""
    """Name of the parent queue; empty at the top of the tree."""
    priority: int | None = None
    """Queues of higher priority are served first beyond their quota and reclaimed from last; 100 if left out."""
    preemptMinRuntime: Duration | None = None
    """How long a job of this queue runs at least before one of the same queue may preempt it."""
    reclaimMinRuntime: Duration | None = None
    """How long a job of this queue runs at least before another queue may reclaim its resources."""
    resources: QueueResources | None = None
    """Quota, weight and limit by resource; all are 0 if left out."""


class QueueCondition(Wire):
    """One observed aspect of a queue's state."""

    type: str
    status: str
    lastProbeTime: Timestamp | None = None
    lastTransitionTime: Timestamp | None = None
    reason: str = ""
    message: str = ""


class QueueFairShare(Wire):
    """What a queue may count on now, in the units of its spec."""

    gpu: float = 0.0
    """In GPUs."""
    cpu: float = 0.0
    """In thousandths of a core."""
    memory: float = 0.0
    """In megabytes of 10^6 bytes."""


class QueueStatus(Wire):
    """What a queue and all below it use and ask for."""

    conditions: tuple[QueueCondition, ...] = ()
    childQueues: tuple[str, ...] = ()
    """Names of the queues directly below this one."""
    allocated: dict[str, Quantity] = {}
    """In use, by jobs of this queue and of all below it."""
    allocatedNonPreemptible: dict[str, Quantity] = {}
    """The part of `allocated` that belongs to jobs which can't be preempted."""
    requested: dict[str, Quantity] = {}
    """Asked for by running and pending jobs."""
    # Not in KAI, from here on: what people look for in `kubectl get queues`.
    gpus: float | None = None
    """GPUs in use, of all vendors together."""
    runningJobs: Int32 | None = None
    """Jobs that have their minimum of pods on nodes."""
    waitingJobs: Int32 | None = None
    """Jobs that haven't."""
    fairShare: QueueFairShare | None = None
    """As the scheduler divided the cluster; it writes this, and only changes that matter."""


class Queue(KubeObject):
    """A node of the tree of queues among which the cluster is divided."""

    COLUMNS: ClassVar[tuple[Column, ...]] = (
        # KAI's, in KAI's order.
        Column("Priority", ".spec.priority"),
        Column("Parent", ".spec.parentQueue"),
        Column("Children", ".status.childQueues"),
        Column("DisplayName", ".spec.displayName"),
        # In GPUs, but for the last.
        Column("GPUs", ".status.gpus", "number"),
        Column("Fair-Share", ".status.fairShare.gpu", "number"),
        Column("Quota", ".spec.resources.gpu.quota", "number"),
        Column("Limit", ".spec.resources.gpu.limit", "number"),
        Column("Waiting", ".status.waitingJobs", "integer"),
        Column("Running", ".status.runningJobs", "integer", priority=1),
        Column("Weight", ".spec.resources.gpu.overQuotaWeight", "number", priority=1),
        Column("CPU", ".status.allocated.cpu", priority=1),
        Column("CPU-Share-m", ".status.fairShare.cpu", "number", priority=1),
        Column("CPU-Quota-m", ".spec.resources.cpu.quota", "number", priority=1),
        Column("Memory", ".status.allocated.memory", priority=1),
        Column("Memory-Share-MB", ".status.fairShare.memory", "number", priority=1),
        Column("Memory-Quota-MB", ".spec.resources.memory.quota", "number", priority=1),
        Column("Orphan", '.status.conditions[?(@.type=="Orphan")].status', priority=1),
        AGE,
    )

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


QUEUE = Resource("scheduling.run.ai", "v2", "Queue", "queues", Queue, namespaced=False, subresources=("status",))
