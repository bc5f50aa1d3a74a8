"""What a bound pod is charged with, as its bind request keeps it: labels and annotations on which accounts rest.

Whoever may edit a pod may edit its labels and annotations, also while it runs. The bind request is the scheduler's
own: it says which GPU groups the pod was given, and (in an annotation that the scheduler writes, the binder reads) by
which amounts and in which pod group it was charged. `as_charged` gives the pod with all of that put right.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.kai import BindRequest
from bosket.api.keys import (
    CHARGED_ANNOTATION,
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    POD_GROUP_ANNOTATION,
    RECEIVED_RESOURCE_TYPE_ANNOTATION,
)
from bosket.api.shared_gpu import group_labels, is_group_label, read_portion

#: `spec.receivedResourceType` of pods that share GPUs.
_FRACTION: Final = "Fraction"
_AMOUNTS: Final = (GPU_FRACTION_ANNOTATION, GPU_MEMORY_ANNOTATION, GPU_FRACTION_DEVICES_ANNOTATION)


def charge_annotations(pod: Pod) -> dict[str, str]:
    """The annotation of a bind request that says by what the pod was charged; none where there is nothing to say."""
    said = {
        key: pod.metadata.annotations[key]
        for key in (*_AMOUNTS, POD_GROUP_ANNOTATION)
        if key in pod.metadata.annotations
    }
    return {CHARGED_ANNOTATION: msgspec.json.encode(said, order="sorted").decode()} if said else {}


def is_for(request: BindRequest, pod: Pod) -> bool:
    """Whether the pod has its node by this request."""
    owners = [each.uid for each in request.metadata.ownerReferences if (each.apiVersion, each.kind) == ("v1", "Pod")]
    return (
        bool(pod.spec.nodeName)
        and request.spec.selectedNode == pod.spec.nodeName
        and request.spec.podName == pod.metadata.name
        and request.metadata.namespace == pod.metadata.namespace
        and (not owners or pod.metadata.uid in owners)
    )


def as_charged(pod: Pod, request: BindRequest) -> Pod:
    """A bound pod as its bind left it, as far as others count on it; the same pod where nothing differs."""
    meta, spec = pod.metadata, request.spec
    is_fraction = spec.receivedResourceType == _FRACTION
    groups = spec.selectedGPUGroups if is_fraction else ()
    labels = {key: value for key, value in meta.labels.items() if not is_group_label(key)}
    labels |= group_labels(groups, several=len(groups) > 1)
    annotations = dict(meta.annotations)
    if spec.receivedResourceType:
        annotations[RECEIVED_RESOURCE_TYPE_ANNOTATION] = spec.receivedResourceType
    charged = _charged(request)
    if is_fraction:
        _restore_amounts(annotations, charged, request)
    if charged and POD_GROUP_ANNOTATION in charged:
        annotations[POD_GROUP_ANNOTATION] = charged[POD_GROUP_ANNOTATION]
    if labels == meta.labels and annotations == meta.annotations:
        return pod
    return replace(pod, metadata=replace(meta, labels=labels, annotations=annotations))


def _restore_amounts(annotations: dict[str, str], charged: dict[str, str] | None, request: BindRequest) -> None:
    if charged is not None:
        for key in _AMOUNTS:
            annotations.pop(key, None)
        annotations.update({key: value for key, value in charged.items() if key in _AMOUNTS})
        return
    # The request of a scheduler that keeps no such record, as KAI's: it tells the devices, and the part of each.
    received, devices = request.spec.receivedGPU, len(request.spec.selectedGPUGroups)
    if devices > 1:
        annotations[GPU_FRACTION_DEVICES_ANNOTATION] = str(devices)
    elif annotations.get(GPU_FRACTION_DEVICES_ANNOTATION, "1") != "1":
        del annotations[GPU_FRACTION_DEVICES_ANNOTATION]
    if received is None or (GPU_MEMORY_ANNOTATION in annotations and GPU_FRACTION_ANNOTATION not in annotations):
        return  # a request for memory can't be compared with a part
    now, given = read_portion(annotations.get(GPU_FRACTION_ANNOTATION, "")), read_portion(received.portion)
    if given is not None and (now is None or round(now, 2) != round(given, 2)):
        annotations[GPU_FRACTION_ANNOTATION] = received.portion


def _charged(request: BindRequest) -> dict[str, str] | None:
    """The record; None where there is none that can be read."""
    text = request.metadata.annotations.get(CHARGED_ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
