"""What several services must agree on: the scheduler name, and labels of pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from cyclopts import Group, Parameter

from bosket.api import keys
from bosket.cli.output import UsageError
from bosket.cli.service_flags import are_given, check_metric_name

_USERS: Final = {
    "scheduler_name": ("admission", "binder", "podgrouper", "scheduler", "node-scale-adjuster"),
    "queue_label_key": ("admission", "podgrouper"),
    "nodepool_label_key": ("podgrouper", "scheduler"),
    "pod_label_selector": ("admission", "podgrouper"),
    "namespace_label_selector": ("admission", "podgrouper"),
    "access_control": ("admission", "scheduler"),
    "scale_adjust_namespace": ("binder", "node-scale-adjuster"),
    "metrics_namespace": ("scheduler", "queue-controller"),
}


@Parameter(name="*", group=Group("Workloads", sort_key=9))
@dataclass(frozen=True)
class WorkloadFlags:
    """Flags that several services must share.

    Parameters
    ----------
    scheduler_name
        Pods with this schedulerName are ours.
    queue_label_key
        The label that names a workload's queue.
    nodepool_label_key
        The label that says to which shard an object belongs, copied from pods to their groups; "" for none.
    pod_label_selector
        Labels that pods must have to be completed, checked and grouped: key=value,key2=value2.
    namespace_label_selector
        Labels that their namespaces must have.
    access_control
        Let only those namespaces and users use a queue or a priority class that its annotations admit.
    scale_adjust_namespace
        Where the node scale adjuster makes its pods; while one of them waits for a node, the binder reserves no GPU.
    metrics_namespace
        What the names of the scheduler's and of queues' metrics begin with.
    """

    scheduler_name: str = keys.SCHEDULER_NAME
    queue_label_key: str = keys.QUEUE_LABEL
    nodepool_label_key: str = keys.NODE_POOL_LABEL
    pod_label_selector: str = ""
    namespace_label_selector: str = ""
    access_control: bool = False
    scale_adjust_namespace: str = keys.SCALE_ADJUST_NAMESPACE
    metrics_namespace: str = keys.METRICS_NAMESPACE

    def given(self) -> list[str]:
        """Which of them aren't as by default."""
        default = WorkloadFlags()
        return [name for name in _USERS if getattr(self, name) != getattr(default, name)]

    def check(self, running: Iterable[str]) -> None:
        """Raises `UsageError` for a flag that none of the services looks at."""
        check_metric_name(self.metrics_namespace)
        services = set(running)
        for name in self.given():
            if services.isdisjoint(_USERS[name]):
                users = " or ".join(_USERS[name])
                raise UsageError(f"--{name.replace('_', '-')}: {users} is not among the services that run")


def is_configured(service: str, flags: object, workloads: WorkloadFlags, running: Collection[str]) -> bool:
    """Whether a service runs otherwise than by default; raises `UsageError` for flags of one that doesn't run."""
    own = are_given(flags, service, running)
    return own or (service in running and any(service in _USERS[name] for name in workloads.given()))
