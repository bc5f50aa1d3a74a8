"""Kinds of single vendors: AzureML's jobs, NVIDIA's spot requests, run:ai's jobs."""

from __future__ import annotations

from bosket.api.object import ObjectKey
from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.groupers.default import INFERENCE, base_group
from bosket.services.podgrouper.workload import Grouping, Workload


def aml_job(workload: Workload) -> Grouping:
    """As many pods as the job has nodes."""
    path = ("spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    content = Part(workload.top)
    nodes = content.count(*path)
    if nodes is None:
        raise content.error("is missing; it says how many pods the job has", *path)
    return Grouping(base_group(workload, min_member=nodes))


def spot_request(workload: Workload) -> Grouping:
    """Somebody waits for it."""
    return Grouping(base_group(workload, fallback_priority=INFERENCE))


def runai_job(workload: Workload) -> Grouping:
    """One group per pod, whose name lacks the part after the last dash: that changes when the pod is made anew."""
    pod, uid = workload.pod, workload.top.metadata.uid
    if workload.options.search_legacy_groups:
        legacy = f"pg-{_legacy_base(workload)}-{uid}"
        if workload.cluster.pod_group(ObjectKey(pod.metadata.namespace, legacy)) is not None:
            return Grouping(base_group(workload, name=legacy))
    base = pod.metadata.name.rpartition("-")[0] if "-" in pod.metadata.name else pod.metadata.name
    return Grouping(base_group(workload, name=f"pg-{base}-{uid}"))


def _legacy_base(workload: Workload) -> str:
    # A parallelism of another type counts as none: the group's name must not depend on whether the job is valid.
    parallelism = workload.top.content.get("spec", {}).get("parallelism")
    is_parallel = isinstance(parallelism, int) and parallelism > 1
    return workload.pod.metadata.name if is_parallel else workload.top.name
