"""All checks, in one table, and what comes of running them on a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.apiextensions import CustomResourceDefinition
from bosket.api.apps import Deployment
from bosket.api.core import Namespace, Node, Pod, Service
from bosket.api.kai import BindRequest, Config, PodGroup, Queue, SchedulingShard, Topology
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s import PriorityClass
from bosket.tools.doctor.bundle import Bundle
from bosket.tools.doctor.checks import (
    access,
    capacity,
    definition,
    deployment,
    gpu_sharing,
    lease,
    queue_tree,
    reading,
    shard,
    shard_setting,
    topology,
    version,
    webhook,
    workload,
    workload_size,
)
from bosket.tools.doctor.finding import Finding, Severity, ordered
from bosket.tools.doctor.installation import Installation


@dataclass(frozen=True, slots=True)
class Check:
    """A question about a cluster that can be answered when certain kinds were read."""

    name: str
    run: Callable[[Installation], Iterator[Finding]]
    needs: tuple[type[KubeObject], ...] = ()


CHECKS: Final = (
    Check("what could be read", reading.check),
    Check("definitions", definition.check, (CustomResourceDefinition,)),
    Check("operator's configuration", deployment.check_conditions, (Config, SchedulingShard)),
    Check("deployments", deployment.check_deployments, (Deployment, SchedulingShard, Config)),
    Check("leases", lease.check),
    Check("who schedules", deployment.check_scheduler, (Deployment, Pod)),
    Check("versions", version.check),
    Check("webhooks", webhook.check, (ValidatingWebhookConfiguration, MutatingWebhookConfiguration, Service)),
    Check("rights", access.check),
    Check("queue tree", queue_tree.check_tree, (Queue,)),
    Check("queue amounts", queue_tree.check_amounts, (Queue,)),
    Check("queues and jobs", queue_tree.check_jobs, (Queue, PodGroup)),
    Check("shards", shard.check_shards, (SchedulingShard, Node, Queue)),
    Check("shards of jobs", shard.check_groups, (Queue, PodGroup)),
    Check("settings of shards", shard_setting.check, (SchedulingShard,)),
    Check("scheduler names", shard.check_scheduler_names, (Pod,)),
    Check("quota and capacity", capacity.check, (Queue, Node)),
    Check("GPUs of nodes", capacity.check_devices, (Node,)),
    Check("pods and queues", workload.check_queues, (Pod, Queue)),
    Check("pods and groups", workload.check_groups, (Pod, PodGroup)),
    Check("priorities", workload.check_priorities, (PodGroup, PriorityClass)),
    Check("pods that wait", workload.check_waiting, (Pod,)),
    Check("bind requests", workload.check_bind_requests, (BindRequest, Node)),
    Check("sizes of gangs", workload_size.check, (Pod, PodGroup, Node, Queue)),
    Check("topologies", topology.check_levels, (Topology, Node)),
    Check("topology constraints", topology.check_constraints, (Topology, PodGroup)),
    Check("GPU sharing", gpu_sharing.check, (Pod, Node, Namespace)),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and what couldn't be looked at."""

    findings: tuple[Finding, ...]
    #: By the name of the check: which kinds it lacked.
    not_checked: dict[str, tuple[str, ...]]
    #: How many of the checks that look at objects could be made.
    checked: int

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "healthy": not self.findings if self.checked else None,
            "checked": self.checked,
            "counts": {str(severity): self.count(severity) for severity in Severity},
            "findings": [finding.document() for finding in self.findings],
            "notChecked": [{"check": name, "missing": list(kinds)} for name, kinds in self.not_checked.items()],
        }


def diagnose(bundle: Bundle) -> Diagnosis:
    """Run every check for which the bundle has what it needs."""
    installation = Installation(bundle)
    findings: list[Finding] = []
    not_checked: dict[str, tuple[str, ...]] = {}
    for check in CHECKS:
        missing = tuple(kind.__name__ for kind in check.needs if not bundle.knows(kind))
        if missing:
            not_checked[check.name] = missing
        else:
            findings += check.run(installation)
    checked = sum(bool(check.needs) for check in CHECKS) - len(not_checked)
    return Diagnosis(tuple(ordered(findings)), not_checked, checked)
