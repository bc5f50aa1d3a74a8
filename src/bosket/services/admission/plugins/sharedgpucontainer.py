"""What the container of a shared GPU needs beside its devices: HAMi-core's memory limit, and NVIDIA's runtime.

Both come after GPU sharing, which names the ConfigMap of the pod's devices.
"""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import ConfigMapKeySelector, EnvVar, EnvVarSource, Pod
from bosket.api.shared_gpu import CUDA_DEVICE_MEMORY_LIMIT, map_names
from bosket.runtime.webhook.verdict import Refusal
from bosket.services.admission.change import with_container, with_variable
from bosket.services.admission.sharing import place_of, shares_gpu, sharing_of


class HamiCore:
    """HAMi-core: the memory limit of a shared GPU as a variable of the container. The binder fills it in, if at all."""

    name = "hamicore"

    def validate(self, _: Pod, /) -> tuple[Refusal, ...]:
        return ()

    def mutate(self, pod: Pod, /) -> Pod:
        sharing = sharing_of(pod)
        names = map_names(pod, sharing) if sharing is not None else None
        if sharing is None or names is None:
            return pod
        key = ConfigMapKeySelector(key=CUDA_DEVICE_MEMORY_LIMIT, name=names.capabilities, optional=True)
        variable = EnvVar(name=CUDA_DEVICE_MEMORY_LIMIT, valueFrom=EnvVarSource(configMapKeyRef=key))
        return with_container(pod, place_of(sharing), with_variable(sharing.container, variable))


class RuntimeEnforcement:
    """Sets the runtime class where the pod names none: without NVIDIA's runtime the container would see no device."""

    name = "runtimeenforcement"

    def __init__(self, runtime_class: str) -> None:
        self._runtime_class = runtime_class

    def validate(self, _: Pod, /) -> tuple[Refusal, ...]:
        return ()

    def mutate(self, pod: Pod, /) -> Pod:
        if not shares_gpu(pod) or pod.spec.runtimeClassName:
            return pod
        return replace(pod, spec=replace(pod.spec, runtimeClassName=self._runtime_class))
