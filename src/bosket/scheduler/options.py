"""How the live scheduler runs. Names and defaults are those of KAI's flags where KAI has them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bosket.api.keys import METRICS_NAMESPACE, NODE_POOL_LABEL, SCHEDULER_NAME
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.snapshot import WorkerLabels
from bosket.scheduler.recording.flight.writer import Bounds
from bosket.scheduler.state.options import StateOptions
from bosket.scheduler.usage.source import UsageSource


def default_directory() -> Path:
    """The directory of snapshots on which the scheduler failed, where no other is configured."""
    return Path(tempfile.gettempdir()) / f"bosket-failed-snapshots-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class Options:
    """Which pods are ours, what is decided on them, and how often."""

    scheduler_name: str = SCHEDULER_NAME
    configuration: Configuration = field(default_factory=Configuration)
    #: KAI's `nodepool-label-key` and `partition-label-value`: the shard are the nodes, queues and pod groups whose
    #: label has the value; those without the label if it is empty; all if there is no label
    node_pool_label: str = NODE_POOL_LABEL
    node_pool: str = ""
    #: KAI's `full-hierarchy-fairness`: False lets queues share the cluster as if they were all siblings
    full_hierarchy_fairness: bool = True
    #: a cycle is tried at least this often, because some things change with time alone
    schedule_period_seconds: float = 1.0
    #: cycles are at least this far apart
    least_pause_seconds: float = 0.02
    #: how long after its deletion deadline a terminating pod's resources stop counting as soon to be free
    stuck_in_releasing_seconds: float = 120.0
    #: KAI's `restrict-node-scheduling`: pods with and without GPUs each go to nodes with their own label, and nodes
    #: with neither aren't there
    worker_labels: WorkerLabels | None = None
    #: instead of the store that the configuration's usage database names: for tests, and those who have their own
    usage_source: UsageSource | None = None
    #: whether pods are deleted, as KAI does, instead of asking the eviction API, which respects disruption budgets
    evict_by_deletion: bool = False
    #: whether queues and priority classes may be used only by the namespaces that their annotations admit
    access_control: bool = False
    #: where the configuration was read, which is looked at again while the scheduler runs
    configuration_file: Path | None = None
    #: a ConfigMap of the service's namespace that is followed instead
    configuration_map: str = ""
    #: what the names of its metrics begin with
    metrics_namespace: str = METRICS_NAMESPACE
    #: where snapshots are kept on which the scheduler failed; None keeps none
    failed_snapshots: Path | None = field(default_factory=default_directory)
    #: the folder of the flight recording; None records no cycles
    recording: Path | None = None
    #: how large it becomes, and how far it reaches back
    recording_bounds: Bounds = field(default_factory=Bounds)

    @property
    def lease_name(self) -> str:
        """As KAI's: of one shard's schedulers only one decides, whichever of the two systems they belong to."""
        return f"{self.scheduler_name}-{self.node_pool}" if self.node_pool else self.scheduler_name

    def state(self) -> StateOptions:
        """What the live state must know of them."""
        return StateOptions(
            self.scheduler_name,
            self.stuck_in_releasing_seconds,
            node_pool_label=self.node_pool_label,
            node_pool=self.node_pool,
            full_hierarchy_fairness=self.full_hierarchy_fairness,
            worker_labels=self.worker_labels,
            access_control=self.access_control,
            honour_budgets=not self.evict_by_deletion,
        )
