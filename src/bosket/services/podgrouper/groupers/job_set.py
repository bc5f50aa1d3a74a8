"""JobSets: one group, with a sub-group per replicated job, and in it one per replica."""

from __future__ import annotations

from typing import Final

from bosket.api import keys
from bosket.api.kai import SubGroup, TopologyConstraint
from bosket.services.podgrouper.field import Part, written_number
from bosket.services.podgrouper.groupers.default import base_group, close_together, group_name
from bosket.services.podgrouper.owner import GroupingError, Owner
from bosket.services.podgrouper.workload import Grouping, Workload

_JOB_LABEL: Final = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-index"
_ORDER: Final = ("spec", "startupPolicy", "startupPolicyOrder")


def job_set(workload: Workload) -> Grouping:
    """All replicated jobs start together; those that come one after the other don't wait for each other."""
    content = Part(workload.top)
    jobs = content.parts("spec", "replicatedJobs")
    if not jobs:
        raise content.error("has no entries", "spec", "replicatedJobs")
    if _has_flat_group(workload):
        return _flat(workload, content)
    minimum = _least_jobs(workload.top, content, len(jobs))
    subgroups = [subgroup for job in jobs for subgroup in _subgroups(job)]
    own = f"{_label(workload, _JOB_LABEL)}-replica-{_label(workload, _INDEX_LABEL)}"
    if own not in {each.name for each in subgroups}:
        raise GroupingError(f"pod {workload.pod.key} is in {own} by its labels, but {workload.top} has no such replica")
    return Grouping(base_group(workload, min_subgroup=minimum, subgroups=subgroups), own)


def _label(workload: Workload, key: str) -> str:
    value = workload.pod.metadata.labels.get(key)
    if not value:
        raise GroupingError(f"pod {workload.pod.key} has no label {key}; pods of a JobSet are grouped by it")
    return value


def _least_jobs(owner: Owner, content: Part, jobs: int) -> int:
    text = owner.annotations.get(keys.BATCH_MIN_MEMBER_ANNOTATION)
    if text is not None:
        return min(jobs, _at_least_one(text, f"{owner}: annotation {keys.BATCH_MIN_MEMBER_ANNOTATION}"))
    return 1 if content.text(*_ORDER) == "InOrder" else jobs


def _at_least_one(text: str, where: str) -> int:
    number = written_number(text, where)
    if number < 1:
        raise GroupingError(f'{where} is "{text}"; it must be at least 1')
    return number


def _subgroups(job: Part) -> list[SubGroup]:
    name = job.text("name")
    if not name:
        raise job.error("is missing", "name")
    replicas = job.count("replicas")
    replicas = 1 if replicas is None else replicas
    minimum, topology = _least_pods(job), _topology(job)
    replica_groups = (
        SubGroup(name=f"{name}-replica-{index}", parent=name, minMember=minimum, topologyConstraint=topology)
        for index in range(replicas)
    )
    return [SubGroup(name=name, minSubGroup=replicas), *replica_groups]


def _least_pods(job: Part) -> int:
    parallelism = job.count("template", "spec", "parallelism")
    text = _annotation(job, keys.BATCH_MIN_MEMBER_ANNOTATION)
    if text:
        where = job.path("template", "metadata", "annotations", keys.BATCH_MIN_MEMBER_ANNOTATION)
        return _at_least_one(text, where)
    return 1 if parallelism is None else parallelism


def _annotation(job: Part, key: str) -> str:
    return job.text("template", "metadata", "annotations", key) or ""


def _topology(job: Part) -> TopologyConstraint | None:
    return close_together(
        _annotation(job, keys.TOPOLOGY_ANNOTATION),
        _annotation(job, keys.TOPOLOGY_REQUIRED_ANNOTATION),
        _annotation(job, keys.TOPOLOGY_PREFERRED_ANNOTATION),
    )


# --- groups of an older version, without sub-groups, stay as they are


def _has_flat_group(workload: Workload) -> bool:
    top, name = workload.top, group_name(workload.top)
    return any(
        (each.metadata.name == name or each.metadata.name.startswith(f"{name}-")) and not each.spec.subGroups
        for each in workload.cluster.pod_groups_named_after(workload.pod.metadata.namespace, top.metadata.uid)
    )


def _flat(workload: Workload, content: Part) -> Grouping:
    job, top = _label(workload, _JOB_LABEL), workload.top
    name = group_name(top)
    if content.text(*_ORDER) == "InOrder":
        name += f"-{job}"
    text = top.annotations.get(keys.BATCH_MIN_MEMBER_ANNOTATION)
    minimum = 1
    if text is not None:
        where = f"{top}: annotation {keys.BATCH_MIN_MEMBER_ANNOTATION}"
        minimum = written_number(text, where)
        if minimum < 0:
            raise GroupingError(f'{where} is "{text}"; it must be 0 or more')
    return Grouping(base_group(workload, name=name, min_member=minimum))
