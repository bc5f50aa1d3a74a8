"""Which pods share a GPU, and in which container; used by all plugins."""

from __future__ import annotations

from bosket.api.core import Pod
from bosket.api.keys import GPU_FRACTION_ANNOTATION, GPU_MEMORY_ANNOTATION
from bosket.api.shared_gpu import SharingContainer, sharing_container
from bosket.services.admission.change import ContainerPlace


def shares_gpu(pod: Pod) -> bool:
    """Whether the pod asks for a part of a GPU, rightly or wrongly."""
    annotations = pod.metadata.annotations
    return GPU_FRACTION_ANNOTATION in annotations or GPU_MEMORY_ANNOTATION in annotations


def sharing_of(pod: Pod) -> SharingContainer | None:
    """The container that gets the part of a GPU; None if the pod wants no part, or has no such container."""
    return sharing_container(pod) if shares_gpu(pod) else None


def place_of(sharing: SharingContainer) -> ContainerPlace:
    """Where it stands."""
    return ContainerPlace(sharing.position, sharing.is_init)
