"""How a pod that shares GPUs is written: how much it asks for, its groups, the container that gets the devices, and the
ConfigMaps it reads.

Admission puts the names of the ConfigMaps on a pod, the binder fills them and puts the groups on it; whoever counts
GPUs reads them. Pure: looks at one pod, and knows no cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bosket.api.core import Container, Pod
from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_CONTAINER_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_GROUP_LABEL,
    GPU_GROUP_LABEL_PREFIX,
    GPU_MEMORY_ANNOTATION,
    RECEIVED_RESOURCE_TYPE_ANNOTATION,
    SHARED_DEVICES_ANNOTATION,
    SHARED_GPU_CONFIG_MAP_ANNOTATION,
)
from bosket.api.name_rules import label_value_error

#: Environment variables, and keys of the ConfigMaps that they are read from.
NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
GPU_PORTION: Final = "GPU_PORTION"
#: What `GPU_PORTION` was called before.
NUMBER_OF_GPUS: Final = "RUNAI_NUM_OF_GPUS"
CUDA_DEVICE_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"
#: More devices than this no node has; and no more memory, in mebibytes.
MOST_DEVICES: Final = 10_000
MOST_MEMORY_MIB: Final = 10**9

#: A number as Go and Kubernetes' quantities read it, too; neither "0x1p-2" nor "nan" nor "1_0".
_NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


class SharingContainer(NamedTuple):
    """The one container of a pod that uses the shared devices."""

    container: Container
    #: Among the containers of its sort.
    position: int
    is_init: bool


class MapNames(NamedTuple):
    """The two ConfigMaps of a pod that shares GPUs."""

    #: What the container's variables refer to by key.
    capabilities: str
    #: What the container takes as a whole into its environment.
    environment: str


def read_portion(text: str) -> float | None:
    """A part of a GPU, above 0 and up to 1; None when the text is none."""
    value = float(text) if _NUMBER.fullmatch(text) else 0.0
    return value if 0 < value <= 1 else None


def read_whole(text: str, most: int) -> int | None:
    """A whole number from 1 to `most`; None when the text is none."""
    value = int(text) if _WHOLE.fullmatch(text) else 0
    return value if 0 < value <= most else None


def gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The groups of shared GPUs that labels name, in either form, in order of their names.

    Anybody may label a pod; what can't be a group's name, as an empty text, is none.
    """
    found = {value for key, value in labels.items() if key.startswith(GPU_GROUP_LABEL_PREFIX)}
    if GPU_GROUP_LABEL in labels:
        found.add(labels[GPU_GROUP_LABEL])
    return tuple(sorted(each for each in found if each and label_value_error(each) is None))


def group_labels(groups: Iterable[str], *, several: bool) -> dict[str, str]:
    """The labels of a pod that shares these groups; there is one of them unless it asked for `several` devices."""
    return {f"{GPU_GROUP_LABEL_PREFIX}{group}" if several else GPU_GROUP_LABEL: group for group in groups}


def is_group_label(key: str) -> bool:
    """Whether a label says which group a pod shares."""
    return key == GPU_GROUP_LABEL or key.startswith(GPU_GROUP_LABEL_PREFIX)


def shared_devices(pod: Pod) -> int | None:
    """How many devices the pod asked for a part of; None when its annotation is no such number."""
    text = pod.metadata.annotations.get(GPU_FRACTION_DEVICES_ANNOTATION, "1")
    return read_whole(text, MOST_DEVICES)


def sharing_container(pod: Pod) -> SharingContainer | None:
    """The container that an annotation names, else the first one; None when there is none of that name."""
    wanted = pod.metadata.annotations.get(GPU_FRACTION_CONTAINER_ANNOTATION)
    if wanted is None:
        return SharingContainer(pod.spec.containers[0], 0, is_init=False) if pod.spec.containers else None
    for is_init, containers in ((True, pod.spec.initContainers), (False, pod.spec.containers)):
        for index, container in enumerate(containers):
            if container.name == wanted:
                return SharingContainer(container, index, is_init)
    return None


def map_names(pod: Pod, sharing: SharingContainer) -> MapNames | None:
    """The pod's ConfigMaps; None when admission has not named them."""
    prefix = pod.metadata.annotations.get(SHARED_GPU_CONFIG_MAP_ANNOTATION)
    if not prefix:
        return None
    name = f"{prefix}-{'i' if sharing.is_init else ''}{sharing.position}"
    return MapNames(name, f"{name}-evar")


def asks_for_part(pod: Pod) -> bool:
    """Whether the pod's annotations ask for a part of a GPU, or of its memory."""
    annotations = pod.metadata.annotations
    return GPU_FRACTION_ANNOTATION in annotations or GPU_MEMORY_ANNOTATION in annotations


def seems_to_share(pod: Pod) -> bool:
    """Whether a pod that is bound shares GPUs, whatever was changed on it since.

    Its annotations may be gone; that a container learns its devices from a ConfigMap, which admission wrote into the
    spec, can't be changed.
    """
    annotations = pod.metadata.annotations
    if SHARED_DEVICES_ANNOTATION in annotations or annotations.get(RECEIVED_RESOURCE_TYPE_ANNOTATION) == "Fraction":
        return True
    return any(
        variable.name in (NVIDIA_VISIBLE_DEVICES, GPU_PORTION)
        and variable.valueFrom is not None
        and variable.valueFrom.configMapKeyRef is not None
        for container in (*pod.spec.containers, *pod.spec.initContainers)
        for variable in container.env
    )
