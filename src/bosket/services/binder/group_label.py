"""Labels that tie a pod to groups of shared GPUs: added, marked as given up, removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.shared_gpu import group_labels, is_group_label, shared_devices

#: On a pod from which the groups are being taken: the version it had before. It makes the change a change every time.
_GIVEN_UP_ANNOTATION: Final = "bosket.dev/gpu-groups-given-up"


def with_groups(pod: Pod, groups: Iterable[str]) -> Pod:
    """The pod with the labels of exactly these groups."""
    bare = without_groups(pod)
    labels = group_labels(groups, several=(shared_devices(pod) or 1) > 1)
    return replace(bare, metadata=replace(bare.metadata, labels={**bare.metadata.labels, **labels}))


def has_traces(pod: Pod) -> bool:
    """Whether the pod has any label or annotation of these functions."""
    return _GIVEN_UP_ANNOTATION in pod.metadata.annotations or any(map(is_group_label, pod.metadata.labels))


def mark_given_up(pod: Pod) -> Pod:
    """The pod with an annotation that changes its resourceVersion: binds prepared for the present version then fail."""
    mark = {_GIVEN_UP_ANNOTATION: pod.metadata.resourceVersion}
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **mark}))


def without_groups(pod: Pod) -> Pod:
    """The pod without labels and annotations of these functions."""
    labels = {key: value for key, value in pod.metadata.labels.items() if not is_group_label(key)}
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key != _GIVEN_UP_ANNOTATION}
    return replace(pod, metadata=replace(pod.metadata, labels=labels, annotations=annotations))
