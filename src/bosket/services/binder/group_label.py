"""The labels that tie a pod to groups of shared GPUs: put on, marked as given up, taken off. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.shared_gpu import group_labels, is_group_label, shared_devices

#: On a pod from which the groups are being taken: the version it had before. It makes the change a change every time.
_GIVEN_UP_ANNOTATION: Final = "bosket.dev/gpu-groups-given-up"


def with_groups(pod: Pod, groups: Iterable[str]) -> Pod:
    """The pod with the labels of these groups and of no others."""
    bare = without_groups(pod)
    labels = group_labels(groups, several=(shared_devices(pod) or 1) > 1)
    return replace(bare, metadata=replace(bare.metadata, labels={**bare.metadata.labels, **labels}))


def has_traces(pod: Pod) -> bool:
    """Whether the pod carries anything of what these functions put on it."""
    return _GIVEN_UP_ANNOTATION in pod.metadata.annotations or any(map(is_group_label, pod.metadata.labels))


def mark_given_up(pod: Pod) -> Pod:
    """The pod in another version, on which nothing that was prepared for the present one takes effect."""
    mark = {_GIVEN_UP_ANNOTATION: pod.metadata.resourceVersion}
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **mark}))


def without_groups(pod: Pod) -> Pod:
    """The pod as it was before anybody bound it."""
    labels = {key: value for key, value in pod.metadata.labels.items() if not is_group_label(key)}
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key != _GIVEN_UP_ANNOTATION}
    return replace(pod, metadata=replace(pod.metadata, labels=labels, annotations=annotations))
