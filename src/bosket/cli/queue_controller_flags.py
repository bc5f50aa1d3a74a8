"""The queue controller's part of the command line, by KAI's names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cyclopts import Group, Parameter

from bosket.cli.service_flags import check_metric_name, pairs
from bosket.cli.workload_flags import WorkloadFlags, is_configured


@Parameter(name="*", group=Group("Queue controller", sort_key=13))
@dataclass(frozen=True)
class QueueControllerFlags:
    """What can be said about the queue controller.

    Parameters
    ----------
    queue_label_to_metric_label
        Labels of queues that their metrics show, and under which names: label=name,label2=name2.
    queue_label_to_default_metric_value
        What is shown of queues without such a label: label=value,label2=value2.
    """

    queue_label_to_metric_label: str = ""
    queue_label_to_default_metric_value: str = ""


def queue_controller_options(
    flags: QueueControllerFlags, workloads: WorkloadFlags, services: Collection[str]
) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not is_configured("queue-controller", flags, workloads, services):
        return {}
    names = pairs("--queue-label-to-metric-label", flags.queue_label_to_metric_label)
    for name in names.values():
        check_metric_name(name)

    from bosket.services.queue import Options

    options = Options(
        metrics_namespace=workloads.metrics_namespace,
        queue_label_to_metric_label=names,
        queue_label_to_default_metric_value=pairs(
            "--queue-label-to-default-metric-value", flags.queue_label_to_default_metric_value
        ),
    )
    return {"queue-controller": options}
