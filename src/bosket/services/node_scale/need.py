"""Which pods wait for a part of a GPU that no node has, how many whole GPUs would be enough for them, and which scaling
pods follow from that. Pure: looks at pods, and knows no cluster and no clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bosket.api.condition import find_condition
from bosket.api.core import Pod
from bosket.api.keys import GPU_FRACTION_ANNOTATION, GPU_MEMORY_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.api.shared_gpu import MOST_MEMORY_MIB, read_portion, read_whole, shared_devices
from bosket.services.node_scale.options import Options
from bosket.services.node_scale.scaling_pod import asked_gpus, scaling_pod, source_of

#: Parts of GPUs are counted in hundredths.
_WHOLE: Final = 100


class Need(NamedTuple):
    """What one pod that waits asks for."""

    pod: Pod
    #: Of each device.
    hundredths: int
    devices: int


class Sorted(NamedTuple):
    """The scaling pods that there are."""

    needless: list[Pod]
    kept: list[Pod]


def is_unschedulable(pod: Pod) -> bool:
    """Whether a scheduler has looked for a node and found none."""
    return any(
        each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable"
        for each in pod.status.conditions
    )


def waits_for_part(pod: Pod) -> bool:
    """Whether a pod waits for a part of a GPU that no node has."""
    annotations = pod.metadata.annotations
    return bool(
        not pod.spec.nodeName
        and (annotations.get(GPU_FRACTION_ANNOTATION) or annotations.get(GPU_MEMORY_ANNOTATION))
        and not has_ended(pod)
        and pod.metadata.deletionTimestamp is None
        and is_unschedulable(pod)
    )


def need_of(pod: Pod, memory_ratio: float) -> Need | None:
    """What a candidate asks for; None when its annotations can't be read, which admission doesn't let happen."""
    annotations, devices = pod.metadata.annotations, shared_devices(pod)
    portion: float | None
    if annotations.get(GPU_FRACTION_ANNOTATION):
        portion = read_portion(annotations[GPU_FRACTION_ANNOTATION])
    else:
        known = read_whole(annotations.get(GPU_MEMORY_ANNOTATION, ""), MOST_MEMORY_MIB)
        portion = memory_ratio if known is not None else None
    if portion is None or devices is None:
        return None
    return Need(pod, math.floor(portion * _WHOLE + 0.5), devices)


def needed_gpus(needs: Iterable[Need]) -> int:
    """As many GPUs as all of them would fill."""
    return math.ceil(sum(each.hundredths * each.devices for each in needs) / _WHOLE)


def sort_out(scaling_pods: Iterable[Pod], sources: Mapping[ObjectKey, Pod]) -> Sorted:
    """Scaling pods that nobody needs any more, and the others.

    One is needless when it has done its work, or could not (KAI keeps those), when the pod it asks for is gone, or when
    that one isn't unschedulable any more. While nothing was said about that pod, it stays.
    """
    needless: list[Pod] = []
    kept: list[Pod] = []
    for pod in sorted(scaling_pods, key=lambda each: each.key):
        key = source_of(pod)
        source = sources.get(key) if key is not None else None
        said = source is not None and find_condition(source.status.conditions, "PodScheduled") is not None
        over = has_ended(pod) or source is None or (said and not is_unschedulable(source))
        (needless if over else kept).append(pod)
    return Sorted(needless, kept)


def missing_pods(candidates: Iterable[Pod], kept: Iterable[Pod], options: Options) -> list[Pod]:
    """Scaling pods to create beside those that are kept: until their GPUs are enough for all candidates together, and
    one of them has as many as any candidate wants on one node. The largest ask first, so that they are few.
    """
    asked = (need_of(each, options.gpu_memory_to_fraction_ratio) for each in candidates)
    needs = sorted((each for each in asked if each is not None), key=lambda each: (-each.devices, each.pod.key))
    needed = needed_gpus(needs)
    present = list(kept)
    served = {source_of(pod) for pod in present}
    names = {pod.metadata.name for pod in present}
    counts = [asked_gpus(pod) for pod in present]
    created = []
    for need in needs:
        if need.pod.key in served or not (needed > sum(counts) or need.devices > max(counts, default=0)):
            continue
        pod = scaling_pod(need.pod, need.devices, options, names)
        created.append(pod)
        names.add(pod.metadata.name)
        counts.append(need.devices)
    return created
