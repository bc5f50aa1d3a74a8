"""Namespace labels as defaults for pods: the scheduler of pods that name none, and their queue.

An administrator labels a namespace once, instead of every workload: `bosket.dev/scheduler-name: kai-scheduler` and
`kai.scheduler/queue: team-a`. What a pod itself says stays. Pods of DaemonSets stay with the default scheduler: they
belong to their nodes and to no queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.keys import NAMESPACE_SCHEDULER_LABEL

#: Of pods that name none: an API server fills it in before it asks anybody.
DEFAULT_SCHEDULER: Final = "default-scheduler"
DAEMON_SET: Final = "DaemonSet"


def follow(pod: Pod, labels: Mapping[str, str], scheduler_name: str, queue_label_key: str) -> Pod:
    """The pod as its namespace's labels want it; the same pod if they want nothing."""
    if _takes_over(pod, labels, scheduler_name):
        pod = replace(pod, spec=replace(pod.spec, schedulerName=scheduler_name))
    queue = labels.get(queue_label_key)
    if queue and pod.spec.schedulerName == scheduler_name and queue_label_key not in pod.metadata.labels:
        labelled = {**pod.metadata.labels, queue_label_key: queue}
        pod = replace(pod, metadata=replace(pod.metadata, labels=labelled))
    return pod


def may_matter(labels: Mapping[str, str], queue_label_key: str) -> bool:
    """Whether a namespace says anything at all."""
    return NAMESPACE_SCHEDULER_LABEL in labels or queue_label_key in labels


def _takes_over(pod: Pod, labels: Mapping[str, str], scheduler_name: str) -> bool:
    return (
        labels.get(NAMESPACE_SCHEDULER_LABEL) == scheduler_name
        and pod.spec.schedulerName in ("", DEFAULT_SCHEDULER)
        and not pod.spec.nodeName
        and not any(each.kind == DAEMON_SET for each in pod.metadata.ownerReferences)
    )
