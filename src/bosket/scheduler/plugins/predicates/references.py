"""The ConfigMaps that a pod can't start without."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.api.core import Container, EphemeralContainer, Pod, Volume
from bosket.api.keys import SHARED_GPU_CONFIG_MAP_ANNOTATION


def required_config_maps(pod: Pod) -> set[str]:
    """Names of ConfigMaps in environments and mounted volumes; without those that are made when the pod is bound."""
    spec = pod.spec
    containers: tuple[Container | EphemeralContainer, ...] = (
        *spec.initContainers,
        *spec.containers,
        *spec.ephemeralContainers,
    )
    names = {name for container in containers for name in _in_environment(container)}
    if spec.volumes:
        mounted = {mount.name for container in containers for mount in container.volumeMounts}
        names |= {name for volume in spec.volumes if volume.name in mounted for name in _in_volume(volume)}
    shared_gpu = pod.metadata.annotations.get(SHARED_GPU_CONFIG_MAP_ANNOTATION)
    return names if shared_gpu is None else {name for name in names if not name.startswith(shared_gpu)}


def _in_environment(container: Container | EphemeralContainer) -> Iterator[str]:
    for variable in container.env:
        source = variable.valueFrom.configMapKeyRef if variable.valueFrom else None
        if source is not None and not source.optional:
            yield source.name
    for many in container.envFrom:
        if many.configMapRef is not None and not many.configMapRef.optional:
            yield many.configMapRef.name


def _in_volume(volume: Volume) -> Iterator[str]:
    if volume.configMap is not None and not volume.configMap.optional:
        yield volume.configMap.name
    if volume.projected is not None:
        for source in volume.projected.sources or ():
            if source.configMap is not None and not source.configMap.optional:
                yield source.configMap.name
