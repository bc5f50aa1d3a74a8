"""How a pod asks for a part of a GPU, and how its container learns which one it got: names on which admission and the
binder agree.

Admission writes the names of two ConfigMaps into the pod, the binder makes the maps when it knows the device. Both are
called after a prefix that stands in an annotation, and after the container's place in the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bosket.api.core import Container, Pod
from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_CONTAINER_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    SHARED_GPU_CONFIG_MAP_ANNOTATION,
)

#: Environment variables of a container that shares a GPU; also the keys of the capabilities map.
VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
GPU_PORTION: Final = "GPU_PORTION"
#: The older name of the portion.
NUMBER_OF_GPUS: Final = "RUNAI_NUM_OF_GPUS"
#: What HAMi-core reads; such as `4096m`.
CUDA_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """Which container of a pod."""

    index: int
    is_init: bool = False

    def of(self, pod: Pod) -> Container:
        return (pod.spec.initContainers if self.is_init else pod.spec.containers)[self.index]

    def __str__(self) -> str:
        """As names of ConfigMaps have it."""
        return f"i{self.index}" if self.is_init else str(self.index)


def shares_gpu(pod: Pod) -> bool:
    """Whether the pod asks for a part of a GPU, rightly or wrongly."""
    annotations = pod.metadata.annotations
    return GPU_FRACTION_ANNOTATION in annotations or GPU_MEMORY_ANNOTATION in annotations


def sharing_container(pod: Pod) -> ContainerPlace | None:
    """The container that gets the part of a GPU: the first, unless the pod names another; None if there is none such.

    Only of a pod that `shares_gpu` does this mean anything.
    """
    name = pod.metadata.annotations.get(GPU_FRACTION_CONTAINER_ANNOTATION)
    if name is None:
        return ContainerPlace(0) if pod.spec.containers else None
    for is_init, containers in ((True, pod.spec.initContainers), (False, pod.spec.containers)):
        for index, container in enumerate(containers):
            if container.name == name:
                return ContainerPlace(index, is_init)
    return None


def capabilities_map(pod: Pod, place: ContainerPlace) -> str | None:
    """The ConfigMap that the container's own variables refer to, key by key; None before admission."""
    prefix = pod.metadata.annotations.get(SHARED_GPU_CONFIG_MAP_ANNOTATION)
    return None if prefix is None else f"{prefix}-{place}"


def environment_map(pod: Pod, place: ContainerPlace) -> str | None:
    """The ConfigMap of which every key becomes a variable of the container; None before admission."""
    capabilities = capabilities_map(pod, place)
    return None if capabilities is None else f"{capabilities}-evar"
