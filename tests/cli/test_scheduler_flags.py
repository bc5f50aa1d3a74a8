"""`bosket run scheduler` takes KAI's flags, those of a shard among them."""

from __future__ import annotations

import pytest

from bosket.cli.main import main
from bosket.cli.output import UsageError
from bosket.cli.scheduler_flags import SchedulerFlags, scheduler_options
from bosket.cli.workload_flags import WorkloadFlags
from bosket.scheduler.model.snapshot import WorkerLabels
from bosket.scheduler.options import Options


def options(flags: SchedulerFlags, workloads: WorkloadFlags | None = None) -> Options:
    made = scheduler_options(None, flags, workloads or WorkloadFlags(), ["scheduler"])["scheduler"]
    assert isinstance(made, Options)
    return made


def test_flags_that_are_left_out_change_nothing() -> None:
    assert scheduler_options(None, SchedulerFlags(), WorkloadFlags(), ["scheduler"]) == {}
    assert options(SchedulerFlags(evict_by_deletion=True)) == Options(evict_by_deletion=True)


def test_a_shard_is_a_label_and_its_value() -> None:
    made = options(SchedulerFlags(partition_label_value="a"), WorkloadFlags("mine", nodepool_label_key="pool"))
    assert made == Options(scheduler_name="mine", node_pool_label="pool", node_pool="a")


def test_flags_become_options_and_settings() -> None:
    made = options(
        SchedulerFlags(
            schedule_period="2s",
            restrict_node_scheduling=True,
            gpu_worker_node_label_key="gpu",
            cpu_worker_node_label_key="cpu",
            max_consolidation_preemptees=3,
            use_scheduling_signatures=False,
            full_hierarchy_fairness=False,
            allow_consolidating_reclaim=False,
            default_staleness_grace_period="-1s",
            stuck_in_releasing_threshold="30s",
        )
    )
    assert (made.schedule_period_seconds, made.stuck_in_releasing_seconds) == (2.0, 30.0)
    assert (made.worker_labels, made.full_hierarchy_fairness) == (WorkerLabels("gpu", "cpu"), False)
    settings = made.configuration.settings
    assert (settings.max_consolidation_preemptees, settings.default_staleness_grace_seconds) == (3, -1.0)
    assert not settings.use_scheduling_signatures
    assert not settings.allow_consolidating_reclaim


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (SchedulerFlags(schedule_period="soon"), "--schedule-period soon: not a duration such as 90s"),
        (SchedulerFlags(schedule_period="0s"), "--schedule-period 0s: must be more than 0"),
    ],
)
def test_what_is_no_duration_is_refused_by_name(flags: SchedulerFlags, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        options(flags)


def test_a_shard_without_a_scheduler_makes_no_sense(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "binder", "--partition-label-value=a"]) == 2
    assert "--partition-label-value: scheduler is not among the services that run" in capsys.readouterr().err
