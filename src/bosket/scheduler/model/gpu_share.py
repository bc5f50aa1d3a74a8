"""GpuShare: what a pod requests of shared GPUs: a portion of each of some devices, or so much memory.

The same memory costs differently from node to node, because it is a larger part of a smaller device. Portions are
counted in hundredths, so that float sums stay exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from bosket.api.keys import (
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    NODE_GPU_MEMORY_LABEL,
)
from bosket.api.shared_gpu import MOST_DEVICES, MOST_MEMORY_MIB, read_portion, read_whole

HUNDREDTHS = 100
#: The assumed memory of devices without a label, in MiB; portions of them are right all the same.
UNKNOWN_DEVICE_MIB = 100
#: Labels with numbers from here on are bytes: no device has so many MiB.
LEAST_BYTES = 1024 * 1024
#: The largest number of bytes that a label is believed to tell.
MOST_BYTES = 10**18


class UnusableShare(ValueError):
    """An annotation about shared GPUs that makes no sense."""


class GpuShare(NamedTuple):
    """A part of each of some devices."""

    portion: float  #: portion of each device; 0 when memory is requested
    memory_mib: int  #: memory of each device; 0 when a portion is requested
    devices: int

    def memory_on(self, device_mib: int) -> int:
        """The MiB taken of each device, on a node with devices of this size; at least 1, because a device of which
        nothing is taken isn't shared."""
        return self.memory_mib or int(self.portion * device_mib) or 1

    def portion_on(self, device_mib: int) -> float:
        """The portion taken of each device; memory is rounded up to a hundredth."""
        return _rounded_up(self.memory_mib / device_mib) if self.memory_mib else self.portion

    def is_possible_on(self, device_mib: int) -> bool:
        return self.memory_on(device_mib) <= device_mib

    def gpus_on(self, device_mib: int) -> float:
        """The GPUs charged to the queue once the pod is on such a node."""
        return _times(self.portion_on(device_mib), self.devices)

    def required_on(self, device_mib: int) -> float:
        """The GPUs that the queue must have left before the pod is placed there."""
        return self.devices * _rounded_up(self.memory_on(device_mib) / device_mib)

    def gpus_by(self, device_mib: int | None) -> float:
        """The GPUs charged if all devices were of this size, without rounding."""
        if self.memory_mib:
            return self.devices * (self.memory_mib / device_mib) if device_mib else 0.0
        return _times(self.portion, self.devices)


def share_of(annotations: Mapping[str, str]) -> GpuShare | None:
    """The share in a pod's annotations; None without one. Raises UnusableShare."""
    portion_text, memory_text = annotations.get(GPU_FRACTION_ANNOTATION), annotations.get(GPU_MEMORY_ANNOTATION)
    devices_text = annotations.get(GPU_FRACTION_DEVICES_ANNOTATION)
    if portion_text is None and memory_text is None:
        if devices_text is not None:
            wanted = f"{GPU_FRACTION_ANNOTATION} or {GPU_MEMORY_ANNOTATION}"
            raise UnusableShare(f"annotation {GPU_FRACTION_DEVICES_ANNOTATION} needs {wanted} beside it")
        return None
    if portion_text is not None and memory_text is not None:
        raise UnusableShare(f"annotations {GPU_FRACTION_ANNOTATION} and {GPU_MEMORY_ANNOTATION} exclude each other")
    devices = 1 if not devices_text else _whole(GPU_FRACTION_DEVICES_ANNOTATION, devices_text, MOST_DEVICES)
    if memory_text is not None:
        return GpuShare(0.0, _whole(GPU_MEMORY_ANNOTATION, memory_text, MOST_MEMORY_MIB), devices)
    assert portion_text is not None
    return GpuShare(_portion(portion_text), 0, devices)


def device_memory(labels: Mapping[str, str]) -> int | None:
    """The memory of a node's devices in MiB, by its label; None when unknown."""
    return _device_mib(labels.get(NODE_GPU_MEMORY_LABEL, ""))


@lru_cache(maxsize=1024)
def _device_mib(text: str) -> int | None:
    amount = read_whole(text, MOST_BYTES)
    if amount is None:
        return None
    if amount >= LEAST_BYTES:
        amount //= LEAST_BYTES
    # A multiple of 100, so that every hundredth of a device is a whole number of MiB and sums stay exact.
    return amount - amount % HUNDREDTHS or None


def _portion(text: str) -> float:
    value = read_portion(text)
    if value is None:
        expected = "a number above 0 and not above 1"
        raise UnusableShare(f'annotation {GPU_FRACTION_ANNOTATION} is "{text[:40]}"; expected {expected}')
    return value


def _whole(annotation: str, text: str, most: int) -> int:
    value = read_whole(text, most)
    if value is None:
        raise UnusableShare(f'annotation {annotation} is "{text[:40]}"; expected a whole number from 1 to {most}')
    return value


def _rounded_up(portion: float) -> float:
    return math.ceil(portion * HUNDREDTHS) / HUNDREDTHS


def _times(portion: float, devices: int) -> float:
    """`count` times a portion, halves rounded up; Python's `round` would round them to even."""
    return math.floor(portion * HUNDREDTHS + 0.5) * devices / HUNDREDTHS
