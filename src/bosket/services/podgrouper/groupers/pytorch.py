"""PyTorchJobs: a master, workers, and workers in segments that are close to each other."""

from __future__ import annotations

from typing import Final

from bosket.api import keys
from bosket.api.kai import SubGroup
from bosket.services.podgrouper.field import Part, written_number
from bosket.services.podgrouper.groupers.default import base_group
from bosket.services.podgrouper.groupers.kubeflow import min_available
from bosket.services.podgrouper.groupers.segment import MOST_SEGMENTS, segment_topology
from bosket.services.podgrouper.owner import GroupingError
from bosket.services.podgrouper.workload import Grouping, Workload

_SPECS: Final = "pytorchReplicaSpecs"
_ROLE_LABEL: Final = "training.kubeflow.org/replica-type"
_INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
_MASTER: Final = "master"
_WORKER: Final = "worker"


def pytorch_job(workload: Workload) -> Grouping:
    """Master and workers are sub-groups; elastic jobs need fewer workers than they have."""
    content = Part(workload.top)
    total = _minimum(workload, content)
    roles = content.part("spec", _SPECS)
    if roles is None:
        raise content.error("is missing", "spec", _SPECS)
    masters = roles.count("Master", "replicas") or 0
    subgroups = [SubGroup(name=_MASTER, minMember=masters)] if masters else []
    of_pod = _MASTER if masters and _role(workload) == _MASTER else ""
    if "Worker" in roles:
        workers, own = _workers(workload, roles, max(0, total - masters))
        subgroups += workers
        of_pod = own or of_pod
    return Grouping(base_group(workload, min_member=total, subgroups=subgroups), of_pod)


def _minimum(workload: Workload, content: Part) -> int:
    minimum = min_available(workload.top, _SPECS)
    if content.count("spec", "runPolicy", "schedulingPolicy", "minAvailable") is not None:
        return minimum
    elastic = content.count("spec", "elasticPolicy", "minReplicas")
    return minimum if elastic is None else elastic


def _role(workload: Workload) -> str:
    return workload.pod.metadata.labels.get(_ROLE_LABEL, "")


def _workers(workload: Workload, roles: Part, minimum: int) -> tuple[list[SubGroup], str]:
    """The workers' sub-groups, and the one that the pod belongs to, if it is a worker."""
    replicas = roles.count("Worker", "replicas")
    replicas = 1 if replicas is None else replicas
    is_worker = _role(workload) == _WORKER
    size = _segment_size(workload, roles)
    if size is None or replicas == 0:
        return [SubGroup(name=_WORKER, minMember=minimum)], _WORKER if is_worker else ""
    count = -(-replicas // size)
    if count > MOST_SEGMENTS:
        raise roles.error(
            f"makes {count} segments of {size}; {MOST_SEGMENTS} at most are possible", "Worker", "replicas"
        )
    topology = segment_topology(workload, roles.part("Worker", "template"))
    needed = -(-minimum // size)
    segments = [
        SubGroup(
            name=f"{_WORKER}-{index}",
            parent=_WORKER,
            # Those beyond the job's minimum never hold the others up.
            minMember=min(size, replicas - index * size) if index < needed else 0,
            topologyConstraint=topology,
        )
        for index in range(count)
    ]
    return [SubGroup(name=_WORKER, minSubGroup=count), *segments], _own_segment(workload, size, count)


def _own_segment(workload: Workload, size: int, count: int) -> str:
    if _role(workload) != _WORKER:
        return ""
    pod = workload.pod
    text = pod.metadata.labels.get(_INDEX_LABEL)
    if text is None:
        raise GroupingError(f"pod {pod.key} has no label {_INDEX_LABEL}; it says which segment a worker is in")
    index = written_number(text, f"pod {pod.key}: label {_INDEX_LABEL}")
    if index < 0:
        raise GroupingError(f'pod {pod.key}: label {_INDEX_LABEL} is "{text}"; it must be 0 or more')
    segment = index // size
    return f"{_WORKER}-{segment}" if segment < count else ""


def _segment_size(workload: Workload, roles: Part) -> int | None:
    key, pod = keys.SEGMENT_SIZE_ANNOTATION, workload.pod
    sources = (
        (pod.metadata.annotations.get(key), f"pod {pod.key}: annotation {key}"),
        (
            roles.text("Worker", "template", "metadata", "annotations", key),
            f"{workload.top}: annotation {key} of the worker template",
        ),
    )
    for text, where in sources:
        if text:
            size = written_number(text, where)
            if size < 1:
                raise GroupingError(f'{where} is "{text}"; it must be at least 1')
            return size
    return None
