"""`bosket run queue-controller` takes KAI's flags."""

from __future__ import annotations

import pytest

from bosket.cli.output import UsageError
from bosket.cli.queue_controller_flags import QueueControllerFlags, queue_controller_options
from bosket.queue_controller import Options


def test_flags_that_are_left_out_change_nothing() -> None:
    assert queue_controller_options(QueueControllerFlags(), ["scheduler"]) == {}


def test_flags_become_options() -> None:
    flags = QueueControllerFlags(
        metrics_namespace="team",
        queue_label_to_metric_label="priority=queue_priority",
        queue_label_to_default_metric_value="priority=normal",
    )
    expected = Options(
        metrics_namespace="team",
        queue_label_to_metric_label={"priority": "queue_priority"},
        queue_label_to_default_metric_value={"priority": "normal"},
    )
    assert queue_controller_options(flags, ["queue-controller"]) == {"queue-controller": expected}


@pytest.mark.parametrize(
    ("flags", "services", "sentence"),
    [
        (QueueControllerFlags(metrics_namespace="x"), ["binder"], "--metrics-namespace: queue-controller is not among"),
        (QueueControllerFlags(metrics_namespace="a-b"), ["queue-controller"], '"a-b" can\'t be part of a metric'),
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
        queue_controller_options(flags, services)
