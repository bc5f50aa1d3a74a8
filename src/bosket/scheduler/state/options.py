"""What the live state must know to read objects."""

from __future__ import annotations

from dataclasses import dataclass

from bosket.api.keys import NODE_POOL_LABEL, SCHEDULER_NAME
from bosket.api.object import KubeObject
from bosket.scheduler.model.snapshot import WorkerLabels


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Which objects belong to this scheduler, and how they are read."""

    scheduler_name: str = SCHEDULER_NAME
    stuck_in_releasing_seconds: float = 120.0
    node_pool_label: str = NODE_POOL_LABEL
    node_pool: str = ""  #: the label's value on this scheduler's nodes, queues and pod groups; empty: without it
    #: when set: only nodes with one of these labels are there, and pods with and without GPUs go to their own ones
    worker_labels: WorkerLabels | None = None
    full_hierarchy_fairness: bool = True  #: False: queues share the cluster as if they were all siblings
    access_control: bool = False  #: True: rules of queues and priority classes about namespaces are in force
    honour_budgets: bool = True  #: False: pods are deleted, which asks no disruption budget

    def in_shard(self, obj: KubeObject) -> bool:
        """Whether an object belongs to this scheduler's shard; True for all objects without a shard label key."""
        return not self.node_pool_label or obj.metadata.labels.get(self.node_pool_label, "") == self.node_pool
