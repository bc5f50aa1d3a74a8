"""What pods ask for and hold, as PodGroups say it: by KAI's formulas, in quantities.

Containers count, init containers don't; a pod that has ended counts nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from bosket.api import keys
from bosket.api.condition import has_condition
from bosket.api.core import Node, Pod
from bosket.api.device_claim import gpus_by_class
from bosket.api.quantity import InvalidQuantity, Quantity, Sum, from_milli, parse
from bosket.api.resource_k8s import ResourceClaim
from bosket.api.shared_gpu import MOST_MEMORY_MIB, read_portion, read_whole, shared_devices

Amounts = dict[str, Quantity]

_MILLI = 1000


def requested(pod: Pod, claims: Iterable[ResourceClaim]) -> Amounts:
    """What a pod asks for, with the claims that it is charged with; nothing once it has ended."""
    if not has_not_ended(pod):
        return {}
    return total((_of_containers(pod), _asked_share(pod), _of_claims(claims)))


def allocated(pod: Pod, claims: Iterable[ResourceClaim], node: Node | None) -> Amounts:
    """What a pod holds on its node, with the claims that it is charged with."""
    if not is_allocated(pod):
        return {}
    return total((_of_containers(pod), _held_share(pod, node), _of_claims(claims)))


def has_not_ended(pod: Pod) -> bool:
    """Whether a pod asks for anything."""
    return pod.status.phase in ("Pending", "Running")


def is_allocated(pod: Pod) -> bool:
    """Whether a pod has a place and hasn't ended."""
    if pod.status.phase == "Running":
        return True
    return pod.status.phase == "Pending" and has_condition(pod.status.conditions, "PodScheduled")


def total(amounts: Iterable[Mapping[str, Quantity]]) -> Amounts:
    """The sum, resource by resource; amounts that can't be read count nothing."""
    sums: dict[str, Sum] = {}
    for each in amounts:
        for name, quantity in each.items():
            before = sums.get(name)
            found = Sum() if before is None else before
            try:
                found.add(quantity)
            except InvalidQuantity:
                continue
            sums[name] = found
    return {name: str(found) for name, found in sums.items()}


def _of_containers(pod: Pod) -> Amounts:
    return total(container.resources.requests for container in pod.spec.containers)


def _of_claims(claims: Iterable[ResourceClaim]) -> Amounts:
    return total({name: str(count) for name, count in gpus_by_class(claim).items()} for claim in claims)


def _asked_share(pod: Pod) -> Amounts:
    annotations, devices = pod.metadata.annotations, shared_devices(pod)
    if devices is None:
        return {}
    asked: Amounts = {}
    portion = read_portion(annotations.get(keys.GPU_FRACTION_ANNOTATION, ""))
    if portion is not None:
        asked[keys.NVIDIA_GPU] = _gpus(Fraction(annotations[keys.GPU_FRACTION_ANNOTATION]) * devices)
    memory = read_whole(annotations.get(keys.GPU_MEMORY_ANNOTATION, ""), MOST_MEMORY_MIB)
    if memory is not None:
        asked[keys.GPU_MEMORY_RESOURCE] = str(memory * devices)
    return asked


def _held_share(pod: Pod, node: Node | None) -> Amounts:
    annotations, devices = pod.metadata.annotations, shared_devices(pod)
    if annotations.get(keys.RECEIVED_RESOURCE_TYPE_ANNOTATION) != "Fraction" or devices is None:
        return {}
    portion = read_portion(annotations.get(keys.GPU_FRACTION_ANNOTATION, ""))
    if portion is not None:
        return {keys.NVIDIA_GPU: _gpus(Fraction(annotations[keys.GPU_FRACTION_ANNOTATION]) * devices)}
    memory = read_whole(annotations.get(keys.GPU_MEMORY_ANNOTATION, ""), MOST_MEMORY_MIB)
    device = _device_memory(node)
    if memory is None or not device:
        return {}
    return {keys.NVIDIA_GPU: _gpus(Fraction(memory, device) * devices)}


def _device_memory(node: Node | None) -> int | None:
    label = node.metadata.labels.get(keys.NODE_GPU_MEMORY_LABEL, "") if node is not None else ""
    try:
        return int(parse(label)) if label else None
    except InvalidQuantity:
        return None


def _gpus(amount: Fraction) -> Quantity:
    """To the thousandth, upwards, as quantities of devices are written."""
    return from_milli(-((-amount.numerator * _MILLI) // amount.denominator))
