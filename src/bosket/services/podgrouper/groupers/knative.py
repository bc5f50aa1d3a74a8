"""Knative services: the pods of a revision wait for each other, unless that was never so, or is switched off."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.services.podgrouper.field import whole_number
from bosket.services.podgrouper.groupers.default import INFERENCE, base_group
from bosket.services.podgrouper.owner import POD, GroupingError, GroupVersionKind, Owner
from bosket.services.podgrouper.workload import KNATIVE_REVISION_LABEL, Grouping, Workload

_REVISION: Final = GroupVersionKind("serving.knative.dev", "v1", "Revision")
_MIN_SCALE_ANNOTATION: Final = "autoscaling.knative.dev/min-scale"


def knative_service(workload: Workload) -> Grouping:
    """What the revision says counts, not what the service says: pods of several revisions run side by side."""
    name = workload.pod.metadata.labels.get(KNATIVE_REVISION_LABEL)
    if name is None:
        raise GroupingError(
            f"pod {workload.pod.key} has no label {KNATIVE_REVISION_LABEL}; it says which revision it belongs to"
        )
    revision = workload.read(_REVISION, name)
    of_revision = dataclasses.replace(workload, top=revision)
    if workload.options.knative_gang_schedule and not _has_groups_per_pod(workload, revision):
        group = base_group(of_revision, min_member=_min_scale(revision), fallback_priority=INFERENCE)
        return Grouping(_plain(group, group.spec.priorityClassName))
    return Grouping(_plain(base_group(of_revision, owner=Owner.typed(POD, workload.pod)), INFERENCE))


def _plain(group: PodGroup, priority: str) -> PodGroup:
    """As in KAI, neither closeness nor preemptibility nor delays are derived here."""
    spec = msgspec.structs.replace(
        group.spec,
        priorityClassName=priority,
        preemptibility="",
        topologyConstraint=None,
        preemptionDelay=None,
        stalenessGracePeriod=None,
    )
    return msgspec.structs.replace(group, spec=spec)


def _min_scale(revision: Owner) -> int:
    text = revision.annotations.get(_MIN_SCALE_ANNOTATION, "1")
    scale = whole_number(text)
    if scale is None:
        return 1
    if scale < 0:
        raise GroupingError(f'{revision}: annotation {_MIN_SCALE_ANNOTATION} is "{text}"; it must be 0 or more')
    return scale


def _has_groups_per_pod(workload: Workload, revision: Owner) -> bool:
    """Whether the revision's pods were grouped one by one so far: then it goes on like that."""
    namespace = revision.metadata.namespace
    pods = workload.cluster.pods_labelled(namespace, KNATIVE_REVISION_LABEL, revision.name)
    sizes = Counter(
        pod.metadata.annotations[keys.POD_GROUP_ANNOTATION]
        for pod in pods
        if keys.POD_GROUP_ANNOTATION in pod.metadata.annotations
    )
    if any(size > 1 for size in sizes.values()) or not sizes:
        return False
    if len(sizes) > 1:
        return True
    (name,) = sizes
    group = workload.cluster.pod_group(ObjectKey(namespace, name))
    if group is None:
        return False
    kind = group.metadata.ownerReferences[0].kind if group.metadata.ownerReferences else "nobody"
    if kind not in (_REVISION.kind, POD.kind):
        raise GroupingError(f"PodGroup {group.key} belongs to {kind}, but to no revision or pod of {workload.top}")
    return kind == POD.kind
