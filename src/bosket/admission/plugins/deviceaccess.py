"""Who sees which GPUs: NVIDIA_VISIBLE_DEVICES would let a container see GPUs that it didn't ask for.

The container that shares a GPU is left out: what it sees is GPU sharing's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from bosket.admission.change import PlacedContainer, containers_of, with_container
from bosket.admission.verdict import Refusal, quoted
from bosket.api.core import Container, EnvVar, Pod
from bosket.api.keys import MIG_RESOURCE_PREFIX, NVIDIA_GPU
from bosket.api.quantity import InvalidQuantity, to_milli
from bosket.api.shared_gpu import VISIBLE_DEVICES, shares_gpu, sharing_container

_HIDDEN: Final = "void"
_ALLOWED: Final = (_HIDDEN, "none")


class DeviceAccess:
    """Keeps GPUs from containers that didn't ask for any."""

    name = "deviceaccess"

    def validate(self, pod: Pod, /) -> Iterator[Refusal]:
        for each in _others(pod):
            for variable in each.container.env:
                if variable.name == VISIBLE_DEVICES and (problem := _problem(variable)):
                    where = "initContainers" if each.place.is_init else "containers"
                    yield Refusal(
                        f"spec.{where}[{each.place.index}].env",
                        f"container {quoted(each.container.name)} sets {VISIBLE_DEVICES} {problem}, which would let it "
                        'see GPUs that it wasn\'t given: it may only be "void" or "none"; leave it out, and ask for '
                        f"GPUs with the limit {NVIDIA_GPU}",
                    )

    def mutate(self, pod: Pod, /) -> Pod:
        for each in _others(pod):
            if not _asks_for_gpu(each.container):
                pod = with_container(pod, each.place, _blinded(each.container))
        return pod


def _others(pod: Pod) -> Iterator[PlacedContainer]:
    """All containers but the one that shares a GPU."""
    sharing = sharing_container(pod) if shares_gpu(pod) else None
    return (each for each in containers_of(pod) if each.place != sharing)


def _problem(variable: EnvVar) -> str | None:
    if variable.value:
        return None if variable.value in _ALLOWED else f"to {quoted(variable.value)}"
    return "from elsewhere (valueFrom)" if variable.valueFrom is not None else None


def _asks_for_gpu(container: Container) -> bool:
    asked = {**container.resources.limits, **container.resources.requests}
    for name, amount in asked.items():
        if name == NVIDIA_GPU or name.startswith(MIG_RESOURCE_PREFIX):
            try:
                if to_milli(amount) != 0:
                    return True
            except InvalidQuantity:
                return True  # the API server refuses it
    return False


def _blinded(container: Container) -> Container:
    hidden = EnvVar(name=VISIBLE_DEVICES, value=_HIDDEN)
    at = next((index for index, each in enumerate(container.env) if each.name == VISIBLE_DEVICES), len(container.env))
    # In its place, since other variables may refer to it.
    later = tuple(each for each in container.env[at:] if each.name != VISIBLE_DEVICES)
    return replace(container, env=(*container.env[:at], hidden, *later))
