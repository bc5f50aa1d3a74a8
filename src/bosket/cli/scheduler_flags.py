"""The scheduler's part of the command line, by KAI's names: its shard, and what isn't in its configuration file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from bosket.api import keys
from bosket.api.time import InvalidDuration, parse_duration
from bosket.cli.output import UsageError
from bosket.cli.path import OptionalFilePath
from bosket.cli.scheduler_config import read_configuration
from bosket.cli.workload_flags import WorkloadFlags, is_configured

if TYPE_CHECKING:
    from bosket.scheduler.recording.flight.writer import Bounds

NAME = "scheduler"


@Parameter(name="*", group=Group("Scheduler", sort_key=10))
@dataclass(frozen=True)
class SchedulerFlags:
    """What can be said about the scheduler. Durations are Go's: 1s, 2m30s.

    Parameters
    ----------
    partition_label_value
        The shard: nodes, queues and pod groups whose node pool label has this value; "" for those without the label.
    schedule_period
        A cycle is tried at least this often; one starts as soon as something changed.
    restrict_node_scheduling
        Let pods with and without GPUs go to nodes with the labels for them only.
    gpu_worker_node_label_key
        The label of nodes for pods with GPUs.
    cpu_worker_node_label_key
        The label of nodes for pods without.
    max_consolidation_preemptees
        How many jobs a consolidation may move; 0 switches it off, -1 is no bound.
    use_scheduling_signatures
        Don't try jobs that are no easier to place than one that was tried in vain.
    full_hierarchy_fairness
        Divide level by level; otherwise queues share the cluster as if they were all siblings.
    allow_consolidating_reclaim
        Victims that find another place count as not reclaimed.
    default_staleness_grace_period
        How long a gang may stay below its minimum; negative for ever.
    stuck_in_releasing_threshold
        How long after its deletion deadline a terminating pod's resources stop counting as soon to be free.
    evict_by_deletion
        Delete preempted pods instead of calling the eviction API, which respects disruption budgets.
    scheduler_config_map
        A ConfigMap of the namespace with the configuration under config.yaml: it is followed while the scheduler runs.
        Without one, the file of --scheduler-config is.
    detailed_fit_errors
        Tell those who wait what each node lacks, and not only how many nodes lack it.
    schedule_csi_storage
        Count down what CSI drivers have left, when deciding where volumes are made.
    failed_snapshots
        The directory for snapshots on which the scheduler itself failed, for bosket replay: the newest five. By default
        one in the directory for temporary files; "" keeps none.
    record
        Record every cycle's input and decisions into this folder, for bosket replay, bosket record and --at.
    record_most
        How large the recording becomes before its oldest part is deleted: 256Mi, 10Gi.
    record_keep
        How far the recording reaches back, in days.
    """

    partition_label_value: str = ""
    schedule_period: str = "1s"
    restrict_node_scheduling: bool = False
    gpu_worker_node_label_key: str = keys.GPU_WORKER_LABEL
    cpu_worker_node_label_key: str = keys.CPU_WORKER_LABEL
    max_consolidation_preemptees: Annotated[int, Parameter(validator=Number(gte=-1))] = 16
    use_scheduling_signatures: bool = True
    full_hierarchy_fairness: bool = True
    allow_consolidating_reclaim: bool = True
    default_staleness_grace_period: str = "60s"
    stuck_in_releasing_threshold: str = "2m"
    evict_by_deletion: bool = False
    scheduler_config_map: str = ""
    detailed_fit_errors: bool = False
    schedule_csi_storage: bool = False
    failed_snapshots: str | None = None
    record: OptionalFilePath = None
    record_most: str = "256Mi"
    record_keep: Annotated[float, Parameter(validator=Number(gt=0))] = 7.0


def scheduler_options(
    file: Path | None, flags: SchedulerFlags, workloads: WorkloadFlags, services: Collection[str]
) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if file is not None and NAME not in services:
        raise UsageError(f"--scheduler-config {file}: the scheduler is not among the services that run")
    if not is_configured(NAME, flags, workloads, services) and file is None:
        return {}

    from bosket.scheduler.model.snapshot import WorkerLabels
    from bosket.scheduler.options import Options

    configuration = read_configuration(file) if file is not None else Options().configuration
    settings = replace(
        configuration.settings,
        max_consolidation_preemptees=flags.max_consolidation_preemptees,
        use_scheduling_signatures=flags.use_scheduling_signatures,
        allow_consolidating_reclaim=flags.allow_consolidating_reclaim,
        default_staleness_grace_seconds=_seconds(flags, "default_staleness_grace_period"),
        schedule_csi_storage=flags.schedule_csi_storage,
        detailed_fit_errors=flags.detailed_fit_errors,
    )
    period = _seconds(flags, "schedule_period")
    if period <= 0:
        raise UsageError(f"--schedule-period {flags.schedule_period}: must be more than 0")
    workers = WorkerLabels(flags.gpu_worker_node_label_key, flags.cpu_worker_node_label_key)
    options = Options(
        scheduler_name=workloads.scheduler_name,
        configuration=replace(configuration, settings=settings),
        node_pool_label=workloads.nodepool_label_key,
        node_pool=flags.partition_label_value,
        full_hierarchy_fairness=flags.full_hierarchy_fairness,
        schedule_period_seconds=period,
        stuck_in_releasing_seconds=_seconds(flags, "stuck_in_releasing_threshold"),
        worker_labels=workers if flags.restrict_node_scheduling else None,
        access_control=workloads.access_control,
        evict_by_deletion=flags.evict_by_deletion,
        configuration_file=file,
        configuration_map=flags.scheduler_config_map,
        metrics_namespace=workloads.metrics_namespace,
        failed_snapshots=_directory(flags.failed_snapshots),
        recording=flags.record,
        recording_bounds=recording_bounds(flags.record_most, flags.record_keep),
    )
    return {NAME: options}


def _directory(name: str | None) -> Path | None:
    from bosket.scheduler.options import default_directory

    if name is None:
        return default_directory()
    return Path(name) if name else None


def recording_bounds(most: str, days: float) -> Bounds:
    """The bounds of a recording, as the command line gives them; raises `UsageError`."""
    from bosket.api.quantity import InvalidQuantity, to_milli
    from bosket.scheduler.recording.flight.writer import LEAST_BYTES, Bounds

    try:
        size = to_milli(most) // 1000
    except InvalidQuantity as error:
        raise UsageError(f"--record-most {most}: {error}") from error
    if size < LEAST_BYTES:
        raise UsageError(f"--record-most {most}: at least {LEAST_BYTES >> 20}Mi")
    return Bounds(size, days * 86400)


def _seconds(flags: SchedulerFlags, name: str) -> float:
    text = getattr(flags, name)
    try:
        return parse_duration(text)
    except InvalidDuration as error:
        raise UsageError(f"--{name.replace('_', '-')} {text}: not a duration such as 90s or 1m30s") from error
