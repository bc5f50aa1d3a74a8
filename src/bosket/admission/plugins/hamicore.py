"""HAMi-core: the memory limit of a shared GPU as a variable of the container. The binder fills it in, if at all."""

from __future__ import annotations

from bosket.admission.change import with_container, with_variable
from bosket.admission.verdict import Refusal
from bosket.api.core import ConfigMapKeySelector, EnvVar, EnvVarSource, Pod
from bosket.api.shared_gpu import CUDA_MEMORY_LIMIT, capabilities_map, shares_gpu, sharing_container


class HamiCore:
    """Comes after GPU sharing, which names the map."""

    name = "hamicore"

    def validate(self, _: Pod, /) -> tuple[Refusal, ...]:
        return ()

    def mutate(self, pod: Pod, /) -> Pod:
        place = sharing_container(pod) if shares_gpu(pod) else None
        config_map = capabilities_map(pod, place) if place is not None else None
        if place is None or config_map is None:
            return pod
        key = ConfigMapKeySelector(key=CUDA_MEMORY_LIMIT, name=config_map, optional=True)
        variable = EnvVar(name=CUDA_MEMORY_LIMIT, valueFrom=EnvVarSource(configMapKeyRef=key))
        return with_container(pod, place, with_variable(place.of(pod), variable))
