"""LeaderWorkerSets: one group per replica, of a leader and its workers, in segments where the set says so."""

from __future__ import annotations

from typing import Final

import msgspec

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.kai import SubGroup
from bosket.services.podgrouper.field import Part, whole_number, written_number
from bosket.services.podgrouper.groupers.default import base_group, group_name
from bosket.services.podgrouper.groupers.segment import MOST_SEGMENTS, segment_topology
from bosket.services.podgrouper.owner import GroupingError
from bosket.services.podgrouper.workload import Grouping, Workload

_SIZE_ANNOTATION: Final = "leaderworkerset.sigs.k8s.io/size"
_GROUP_LABEL: Final = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER_LABEL: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_LEADER: Final = "leader"
_WORKERS: Final = "workers"
_TEMPLATE: Final = ("spec", "leaderWorkerTemplate")


def leader_worker_set(workload: Workload) -> Grouping:
    """One group per index; where workers come after the leader is ready, the leader doesn't wait for them."""
    content = Part(workload.top)
    index = _worker_index(workload.pod)
    size = _size(content)
    policy = content.text("spec", "startupPolicy")
    if policy not in (None, "LeaderCreated", "LeaderReady"):
        raise content.error(f'is "{policy}"; it must be LeaderCreated or LeaderReady', "spec", "startupPolicy")
    if policy == "LeaderReady" and index == 0 and not workload.pod.spec.nodeName:
        size, segment = 1, None
    else:
        size = _stated_size(workload.pod, size) if policy == "LeaderReady" else size
        segment = _segment_size(workload, content, size)
    if segment is None:
        subgroups, own = _without_segments(size, index)
    else:
        subgroups, own = _with_segments(workload, content, size, segment, index)
    group = base_group(workload, name=_name(workload), min_member=size, subgroups=subgroups)
    return Grouping(group, own)


def _name(workload: Workload) -> str:
    name, index = group_name(workload.top), whole_number(workload.pod.metadata.labels.get(_GROUP_LABEL, ""))
    return name if index is None else f"{name}-group-{index}"


def _worker_index(pod: Pod) -> int | None:
    """The pod's place in its group, 0 for the leader; None where it doesn't say."""
    text = pod.metadata.labels.get(_WORKER_LABEL)
    if text is None:
        return None
    where = f"pod {pod.key}: label {_WORKER_LABEL}"
    index = written_number(text, where)
    if index < 0:
        raise GroupingError(f'{where} is "{text}"; it must be 0 or more')
    return index


def _size(content: Part) -> int:
    size = content.count(*_TEMPLATE, "size")
    if not size:
        raise content.error("must be at least 1", *_TEMPLATE, "size")
    return size


def _stated_size(pod: Pod, size: int) -> int:
    """The size that the pod was made with, which the set may have changed since."""
    stated = whole_number(pod.metadata.annotations.get(_SIZE_ANNOTATION, ""))
    return stated if stated is not None and stated > 0 else size


def _without_segments(size: int, index: int | None) -> tuple[list[SubGroup], str]:
    subgroups = [SubGroup(name=_LEADER, minMember=1)]
    if size > 1:
        subgroups.append(SubGroup(name=_WORKERS, minMember=size - 1))
    if index == 0:
        return subgroups, _LEADER
    return subgroups, _WORKERS if size > 1 else ""


def _segment_size(workload: Workload, content: Part, size: int) -> int | None:
    where = f"{workload.top}: {content.path(*_TEMPLATE, 'subGroupPolicy', 'subGroupSize')}"
    segment = content.count(*_TEMPLATE, "subGroupPolicy", "subGroupSize")
    if segment is None:
        key = keys.SEGMENT_SIZE_ANNOTATION
        text = workload.top.annotations.get(key)
        where = f"{workload.top}: annotation {key}"
        if text is None:
            text = content.text(*_TEMPLATE, "workerTemplate", "metadata", "annotations", key)
            where += " of the worker template"
        if text is None:
            return None
        segment = written_number(text, where)
    if not 1 < segment <= size:
        raise GroupingError(f"{where} is {segment}; it must be at least 2, and at most the group's size, {size}")
    return segment


def _with_segments(
    workload: Workload, content: Part, size: int, segment: int, index: int | None
) -> tuple[list[SubGroup], str]:
    """Workers in order, a segment after the other. The leader is in the first one, or apart."""
    last = _segment_of(size - 1, size, segment)
    if last >= MOST_SEGMENTS:
        raise GroupingError(f"{workload.top}: {last + 1} segments of {segment}; {MOST_SEGMENTS} at most are possible")
    if index is None:
        raise GroupingError(f"pod {workload.pod.key} has no label {_WORKER_LABEL}; it says which segment it is in")
    own = _segment_of(index, size, segment)
    if own > last:
        raise GroupingError(
            f'pod {workload.pod.key}: label {_WORKER_LABEL} is "{index}", beyond the group\'s size, {size}'
        )
    topology = segment_topology(workload, content.part(*_TEMPLATE, "workerTemplate"))
    segments = [
        SubGroup(name=f"segment-{number}", minMember=segment, topologyConstraint=topology) for number in range(last + 1)
    ]
    in_last = sum(_segment_of(each, size, segment) == last for each in range(max(0, size - segment - 1), size))
    segments[-1] = msgspec.structs.replace(segments[-1], minMember=in_last)
    policy = content.text(*_TEMPLATE, "subGroupPolicy", "subGroupPolicyType")
    if policy == "LeaderExcluded":
        if (size - 1) % segment:
            raise GroupingError(
                f"{workload.top}: {size - 1} workers don't fill segments of {segment}; "
                "with the policy LeaderExcluded they must"
            )
        # Of one segment the leader isn't the one too many.
        segments = [msgspec.structs.replace(each, minMember=segment) for each in segments]
        return [SubGroup(name=_LEADER, minMember=1), *segments], _LEADER if index == 0 else segments[own].name
    if policy in (None, "LeaderWorker"):
        return _leader_in_first(segments, size, segment, index, own)
    return segments, segments[own].name


def _segment_of(index: int, size: int, segment: int) -> int:
    """Where the workers alone fill the segments, the leader is one too many in the first."""
    if index == 0:
        return 0
    return (index - 1) // segment if (size - 1) % segment == 0 else index // segment


def _leader_in_first(
    segments: list[SubGroup], size: int, segment: int, index: int, own: int
) -> tuple[list[SubGroup], str]:
    first = segments[0]
    pods = segment + 1 if (size - 1) % segment == 0 else (first.minMember or 0)
    parts = (
        SubGroup(name=_LEADER, minMember=1, parent=first.name),
        SubGroup(name=_WORKERS, minMember=pods - 1, parent=first.name),
    )
    parent = msgspec.structs.replace(first, minMember=None, minSubGroup=len(parts))
    of_worker = _WORKERS if own == 0 else segments[own].name
    return [parent, *segments[1:], *parts], _LEADER if index == 0 else of_worker
