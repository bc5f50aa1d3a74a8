"""Who sees which GPUs: NVIDIA_VISIBLE_DEVICES would let a container see GPUs that it didn't ask for.

The container that shares a GPU is left out: what it sees is GPU sharing's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Container, EnvVar, Pod
from bosket.api.keys import MIG_RESOURCE_PREFIX, NVIDIA_GPU
from bosket.api.quantity import InvalidQuantity, to_milli
from bosket.api.shared_gpu import NVIDIA_VISIBLE_DEVICES
from bosket.runtime.webhook.verdict import Refusal, quoted
from bosket.services.admission.change import PlacedContainer, containers_of, with_container
from bosket.services.admission.sharing import place_of, sharing_of

_HIDDEN: Final = "void"
_ALLOWED: Final = (_HIDDEN, "none")


class DeviceAccess:
    """Keeps GPUs from containers that didn't ask for any."""

    name = "deviceaccess"

    def validate(self, pod: Pod, /) -> Iterator[Refusal]:
        for each in _others(pod):
            name = quoted(each.container.name)
            for variable in each.container.env:
                if variable.name == NVIDIA_VISIBLE_DEVICES and (problem := _problem(variable)):
                    yield Refusal(
                        f"{each.place.field}.env",
                        f"container {name} sets {NVIDIA_VISIBLE_DEVICES} {problem}, which would let it "
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
    sharing = sharing_of(pod)
    exempt = None if sharing is None else place_of(sharing)
    return (each for each in containers_of(pod) if each.place != exempt)


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
    hidden = EnvVar(name=NVIDIA_VISIBLE_DEVICES, value=_HIDDEN)
    names = [each.name for each in container.env]
    at = names.index(NVIDIA_VISIBLE_DEVICES) if NVIDIA_VISIBLE_DEVICES in names else len(names)
    # In its place, since other variables may refer to it.
    later = tuple(each for each in container.env[at:] if each.name != NVIDIA_VISIBLE_DEVICES)
    return replace(container, env=(*container.env[:at], hidden, *later))
