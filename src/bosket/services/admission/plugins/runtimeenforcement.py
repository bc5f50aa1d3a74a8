"""The runtime class of pods that share a GPU: without NVIDIA's runtime their container would see no device."""

from __future__ import annotations

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.runtime.webhook.verdict import Refusal
from bosket.services.admission.sharing import shares_gpu


class RuntimeEnforcement:
    """Sets the runtime class where the pod names none."""

    name = "runtimeenforcement"

    def __init__(self, runtime_class: str) -> None:
        self._runtime_class = runtime_class

    def validate(self, _: Pod, /) -> tuple[Refusal, ...]:
        return ()

    def mutate(self, pod: Pod, /) -> Pod:
        if not shares_gpu(pod) or pod.spec.runtimeClassName:
            return pod
        return replace(pod, spec=replace(pod.spec, runtimeClassName=self._runtime_class))
