"""Kubeflow's training jobs whose pods all start together, and its notebooks. PyTorchJob has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.groupers.default import BUILD, base_group
from bosket.services.podgrouper.owner import Owner
from bosket.services.podgrouper.workload import TRAINING_JOB_LABEL, Grouper, Grouping, Workload

_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
_MPI_SPECS: Final = "mpiReplicaSpecs"


def training_job(replica_specs: str, *needed: str) -> Grouper:
    """The grouper of a kind whose roles are under `spec.<replica_specs>`; those that are `needed` must be there."""

    def grouper(workload: Workload) -> Grouping:
        return Grouping(base_group(workload, min_member=min_available(workload.top, replica_specs, needed)))

    return grouper


def min_available(job: Owner, replica_specs: str, needed: Sequence[str] = ()) -> int:
    """What the job's own scheduling policy asks for, else all of its pods."""
    content = Part(job)
    by_policy = content.count("spec", "runPolicy", "schedulingPolicy", "minAvailable")
    return _all_pods(content, replica_specs, needed) if by_policy is None else by_policy


def _all_pods(content: Part, replica_specs: str, needed: Sequence[str]) -> int:
    roles = content.part("spec", replica_specs)
    if roles is None:
        raise content.error("is missing", "spec", replica_specs)
    for name in needed:
        if name not in roles:
            raise roles.error("is missing, and the job can't do without it", name)
    total = 0
    for name in roles:
        replicas = roles.count(name, "replicas")
        if not replicas:
            raise roles.error("must be at least 1", name, "replicas")
        total += replicas
    if total == 0:
        raise content.error("has no roles", "spec", replica_specs)
    return total


def mpi_job(workload: Workload) -> Grouping:
    """A launcher that is made when the workers are ready can't be waited for by them."""
    job = workload.top
    minimum = min_available(job, _MPI_SPECS, ("Launcher", "Worker"))
    content = Part(job)
    if content.text("spec", "launcherCreationPolicy") == "WaitForWorkersReady" and not _has_launcher(workload):
        launchers = content.count("spec", _MPI_SPECS, "Launcher", "replicas")
        if not launchers:
            raise content.error("must be at least 1", "spec", _MPI_SPECS, "Launcher", "replicas")
        minimum = max(0, minimum - launchers)
    return Grouping(base_group(workload, min_member=minimum))


def _has_launcher(workload: Workload) -> bool:
    pods = workload.cluster.pods_labelled(workload.top.metadata.namespace, TRAINING_JOB_LABEL, workload.top.name)
    return any(
        pod.metadata.labels.get(_ROLE_LABEL) == "launcher" and pod.metadata.deletionTimestamp is None for pod in pods
    )


def notebook(workload: Workload) -> Grouping:
    """Somebody sits in front of it."""
    return Grouping(base_group(workload, fallback_priority=BUILD))
