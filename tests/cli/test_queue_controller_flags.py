"""`bosket run queue-controller` takes KAI's flags."""

from __future__ import annotations

import pytest

from bosket.cli.output import UsageError
from bosket.cli.queue_controller_flags import QueueControllerFlags, queue_controller_options
from bosket.cli.scheduler_flags import SchedulerFlags, scheduler_options
from bosket.cli.workload_flags import WorkloadFlags
from bosket.scheduler.options import Options as SchedulerOptions
from bosket.services.queue import Options


def test_flags_that_are_left_out_change_nothing() -> None:
    assert queue_controller_options(QueueControllerFlags(), WorkloadFlags(), ["scheduler"]) == {}


def test_flags_become_options() -> None:
    flags = QueueControllerFlags(
        queue_label_to_metric_label="priority=queue_priority",
        queue_label_to_default_metric_value="priority=normal",
    )
    expected = Options(
        metrics_namespace="team",
        queue_label_to_metric_label={"priority": "queue_priority"},
        queue_label_to_default_metric_value={"priority": "normal"},
    )
    assert queue_controller_options(flags, WorkloadFlags(metrics_namespace="team"), ["queue-controller"]) == {
        "queue-controller": expected
    }


@pytest.mark.parametrize(
    ("flags", "services", "sentence"),
    [
        (
            QueueControllerFlags(queue_label_to_metric_label="priority=1st"),
            ["queue-controller"],
            '"1st" can\'t be part of a metric',
        ),
        (
            QueueControllerFlags(queue_label_to_metric_label="priority"),
            ["queue-controller"],
            '--queue-label-to-metric-label "priority": expected key=value',
        ),
    ],
)
def test_flags_that_mean_nothing_are_refused_by_name(
    flags: QueueControllerFlags, services: list[str], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        queue_controller_options(flags, WorkloadFlags(), services)


def test_the_beginning_of_metrics_is_that_of_the_scheduler_too() -> None:
    workloads = WorkloadFlags(metrics_namespace="team")
    workloads.check(["scheduler"])
    made = scheduler_options(None, SchedulerFlags(), workloads, ["scheduler"])["scheduler"]
    assert isinstance(made, SchedulerOptions)
    assert made.metrics_namespace == "team"


@pytest.mark.parametrize(
    ("name", "services", "sentence"),
    [
        ("x", ["binder"], "--metrics-namespace: scheduler or queue-controller is not among"),
        ("a-b", ["queue-controller"], '"a-b" can\'t be part of a metric'),
    ],
)
def test_a_beginning_that_means_nothing_is_refused(name: str, services: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        WorkloadFlags(metrics_namespace=name).check(services)
