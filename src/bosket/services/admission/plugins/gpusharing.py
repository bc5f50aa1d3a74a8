"""Pods that share a GPU: what they may say, and what their container is given.

The container learns its device from two ConfigMaps that don't exist yet: the binder makes them when it knows the
device. Until then the container can't start, because the second one is not optional.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bosket.api.core import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    Pod,
    Volume,
)
from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_CONTAINER_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    GPU_RESOURCES,
    MIG_RESOURCE_PREFIX,
    MPS_ANNOTATION,
    NVIDIA_GPU,
    SHARED_GPU_CONFIG_MAP_ANNOTATION,
)
from bosket.api.shared_gpu import (
    GPU_PORTION,
    MOST_DEVICES,
    MOST_MEMORY_MIB,
    NUMBER_OF_GPUS,
    NVIDIA_VISIBLE_DEVICES,
    map_names,
    read_portion,
    read_whole,
)
from bosket.runtime.webhook.verdict import Refusal, annotation_field, quoted
from bosket.services.admission.change import containers_of, with_annotation, with_container, with_variable
from bosket.services.admission.config_map_name import Suffix, config_map_prefix, prefix_problem, volume_name
from bosket.services.admission.sharing import place_of, shares_gpu, sharing_of


class GpuSharing:
    """Annotations gpu-fraction, gpu-memory and those around them."""

    name = "gpusharing"

    def __init__(self, *, enabled: bool, make_suffix: Suffix) -> None:
        self._enabled = enabled
        self._make_suffix = make_suffix

    # --- what is refused

    def validate(self, pod: Pod, /) -> Iterator[Refusal]:
        if not shares_gpu(pod):
            yield from _about_sharing_alone(pod)
        elif not self._enabled:
            key = GPU_FRACTION_ANNOTATION if _get(pod, GPU_FRACTION_ANNOTATION) is not None else GPU_MEMORY_ANNOTATION
            yield _refusal(
                key,
                f"annotation {key} asks for a part of a GPU, but GPU sharing is switched off in this cluster: "
                f"ask for whole GPUs with the limit {NVIDIA_GPU}",
            )
        else:
            yield from _check_amounts(pod)
            yield from _check_combination(pod)
            yield from _check_container(pod)

    # --- what is added

    def mutate(self, pod: Pod, /) -> Pod:
        sharing = sharing_of(pod)
        if sharing is None:
            return pod
        place = place_of(sharing)
        if _get(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION) is None:
            prefix = config_map_prefix(pod, place, self._make_suffix())
            pod = with_annotation(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION, prefix)
        names = map_names(pod, sharing)
        assert names is not None
        container = sharing.container
        for variable in (NVIDIA_VISIBLE_DEVICES, NUMBER_OF_GPUS, GPU_PORTION):
            reference = EnvVarSource(configMapKeyRef=ConfigMapKeySelector(key=variable, name=names.capabilities))
            container = with_variable(container, EnvVar(name=variable, valueFrom=reference))
        pod = with_container(pod, place, _with_variables_of(container, names.environment))
        return _with_volume(pod, names.capabilities)


def _about_sharing_alone(pod: Pod) -> Iterator[Refusal]:
    """What makes no sense in a pod that shares no GPU."""
    needs = f"it needs {GPU_FRACTION_ANNOTATION} or {GPU_MEMORY_ANNOTATION} beside it"
    if _get(pod, MPS_ANNOTATION) == "true":
        yield _refusal(MPS_ANNOTATION, f"annotation {MPS_ANNOTATION} is for pods that share a GPU: {needs}")
    if _get(pod, GPU_FRACTION_DEVICES_ANNOTATION) is not None:
        key = GPU_FRACTION_DEVICES_ANNOTATION
        yield _refusal(key, f"annotation {key} says on how many GPUs, but not how much of each: {needs}")


def _check_amounts(pod: Pod) -> Iterator[Refusal]:
    fraction = _get(pod, GPU_FRACTION_ANNOTATION)
    if fraction is not None and read_portion(fraction) in (None, 1.0):
        key = GPU_FRACTION_ANNOTATION
        yield _refusal(
            key,
            f"annotation {key} is {quoted(fraction)}: it must be a number above 0 and below 1, such as 0.5; "
            f"whole GPUs are asked for with the limit {NVIDIA_GPU}",
        )
    for key, unit, most in (
        (GPU_MEMORY_ANNOTATION, "MiB of each GPU", MOST_MEMORY_MIB),
        (GPU_FRACTION_DEVICES_ANNOTATION, "GPUs", MOST_DEVICES),
    ):
        count = _get(pod, key)
        if count is not None and read_whole(count, most) is None:
            yield _refusal(
                key, f"annotation {key} is {quoted(count)}: it must be a whole number of {unit}, from 1 to {most}"
            )


def _check_combination(pod: Pod) -> Iterator[Refusal]:
    keys = [key for key in (GPU_FRACTION_ANNOTATION, GPU_MEMORY_ANNOTATION) if _get(pod, key) is not None]
    if len(keys) > 1:
        yield _refusal(
            GPU_MEMORY_ANNOTATION,
            f"annotations {GPU_FRACTION_ANNOTATION} and {GPU_MEMORY_ANNOTATION} both say how much of a GPU: keep one",
        )
    for each in containers_of(pod):
        whole = _whole_gpus(each.container)
        if whole:
            yield Refusal(
                f"{each.place.field}.resources",
                f"container {quoted(each.container.name)} asks for {whole} while annotation {keys[0]} asks for a part "
                "of a GPU: a pod may have whole GPUs (or MIG instances), or parts of GPUs, not both; leave one out",
            )


def _check_container(pod: Pod) -> Iterator[Refusal]:
    name = _get(pod, GPU_FRACTION_CONTAINER_ANNOTATION)
    sharing = sharing_of(pod)
    if name is not None and sharing is None:
        known = ", ".join(quoted(each.container.name) for each in containers_of(pod))
        yield _refusal(
            GPU_FRACTION_CONTAINER_ANNOTATION,
            f"annotation {GPU_FRACTION_CONTAINER_ANNOTATION} is {quoted(name)}, which is no container of the pod: "
            f"it must be one of {known}, or be left out for the first",
        )
    prefix = _get(pod, SHARED_GPU_CONFIG_MAP_ANNOTATION)
    if prefix is not None and sharing is not None:
        problem = prefix_problem(prefix, place_of(sharing))
        if problem:
            yield _refusal(
                SHARED_GPU_CONFIG_MAP_ANNOTATION,
                f"annotation {SHARED_GPU_CONFIG_MAP_ANNOTATION} is {quoted(prefix)}, which {problem}: leave it out, "
                "and a fitting name is made",
            )


def _whole_gpus(container: Container) -> str | None:
    """The resource by which a container asks for whole GPUs, or for parts that the device itself separates."""
    for name in sorted({*container.resources.limits, *container.resources.requests}):
        if name in GPU_RESOURCES or name.startswith(MIG_RESOURCE_PREFIX):
            return name
    return None


def _with_variables_of(container: Container, config_map: str) -> Container:
    if any(each.configMapRef is not None and each.configMapRef.name == config_map for each in container.envFrom):
        return container
    source = EnvFromSource(configMapRef=ConfigMapEnvSource(name=config_map, optional=False))
    return replace(container, envFrom=(*container.envFrom, source))


def _with_volume(pod: Pod, config_map: str) -> Pod:
    """The pod with the map as a volume, which nobody mounts: without it, it would not start before the map is there."""
    volume = volume_name(config_map)
    found = [each for each in pod.spec.volumes if each.name == volume]
    if len(found) == 1 and found[0].configMap is not None and found[0].configMap.name == config_map:
        return pod  # perhaps with the defaults that the API server has put into it
    others = tuple(each for each in pod.spec.volumes if each.name != volume)
    added = Volume(name=volume, configMap=ConfigMapVolumeSource(name=config_map))
    return replace(pod, spec=replace(pod.spec, volumes=(*others, added)))


def _get(pod: Pod, key: str) -> str | None:
    return pod.metadata.annotations.get(key)


def _refusal(key: str, message: str) -> Refusal:
    return Refusal(annotation_field(key), message)
