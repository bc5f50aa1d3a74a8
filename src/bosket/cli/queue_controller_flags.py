"""The queue controller's part of the command line, by KAI's names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cyclopts import Group, Parameter

from bosket.cli.output import UsageError
from bosket.cli.service_flags import are_given, pairs

_METRIC_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


@Parameter(name="*", group=Group("Queue controller", sort_key=13))
@dataclass(frozen=True)
class QueueControllerFlags:
    """What can be said about the queue controller.

    Parameters
    ----------
    metrics_namespace
        What the names of queues' metrics begin with.
    queue_label_to_metric_label
        Labels of queues that their metrics show, and under which names: label=name,label2=name2.
    queue_label_to_default_metric_value
        What is shown of queues without such a label: label=value,label2=value2.
    """

    metrics_namespace: str = "kai"
    queue_label_to_metric_label: str = ""
    queue_label_to_default_metric_value: str = ""


def queue_controller_options(flags: QueueControllerFlags, services: Iterable[str]) -> dict[str, object]:
    """Options by the name of the service, if they aren't the default ones; raises `UsageError`."""
    if not are_given(flags, "queue-controller", services):
        return {}
    names = pairs("--queue-label-to-metric-label", flags.queue_label_to_metric_label)
    for name in (flags.metrics_namespace, *names.values()):
        if not _METRIC_NAME.fullmatch(name):
            raise UsageError(f'"{name}" can\'t be part of a metric: letters, digits and _ only, no digit first')

    from bosket.queue_controller import Options

    options = Options(
        metrics_namespace=flags.metrics_namespace,
        queue_label_to_metric_label=names,
        queue_label_to_default_metric_value=pairs(
            "--queue-label-to-default-metric-value", flags.queue_label_to_default_metric_value
        ),
    )
    return {"queue-controller": options}
