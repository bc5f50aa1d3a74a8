"""HAMi-core: the memory limit of a shared GPU as a variable of the container. The binder fills it in, if at all."""

from __future__ import annotations

from bosket.api.core import ConfigMapKeySelector, EnvVar, EnvVarSource, Pod
from bosket.api.shared_gpu import CUDA_DEVICE_MEMORY_LIMIT, map_names
from bosket.runtime.webhook.verdict import Refusal
from bosket.services.admission.change import with_container, with_variable
from bosket.services.admission.sharing import place_of, sharing_of


class HamiCore:
    """Comes after GPU sharing, which names the map."""

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
