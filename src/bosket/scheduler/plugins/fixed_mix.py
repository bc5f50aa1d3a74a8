"""The argument `podMix` of the plugin `nodeplacement`: which pods to keep free GPUs usable for, instead of those seen.

A YAML (or JSON) list, as a text because arguments are texts:

    podMix: |
      - {gpus: 8, cpu: 90, memory: 700Gi, weight: 1}
      - {gpuFraction: 0.5, cpu: 8, memory: 32Gi, weight: 3}
      - {gpuMemory: 10000, devices: 2, nodeSelector: {model: A100}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.quantity import InvalidQuantity, Quantity, to_int, to_milli
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.pod_mix import PodMix, PodShape

_WHERE: Final = "plugin nodeplacement: podMix"


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What pods of one shape ask for, and how frequent they are."""

    gpus: int = 0
    gpu_fraction: float = 0.0  #: of a device
    gpu_memory: int = 0  #: of a device, in mebibytes
    devices: int = 1  #: that a fraction, or memory, is asked of
    cpu: Quantity = 0
    memory: Quantity = 0
    node_selector: Mapping[str, str] = {}
    weight: float = 1.0


def fixed_mix(text: str) -> PodMix:
    """The mix in an argument; raises `ConfigurationError` with the entry that is wrong."""
    try:
        document = read_yaml(text)
    except UnreadableDocument as error:
        raise ConfigurationError(f"{_WHERE}: {error}") from error
    if not isinstance(document, list) or not document:
        raise ConfigurationError(f"{_WHERE} must be a list of shapes of pods")
    return PodMix.of([_read(f"{_WHERE}[{number}]", each) for number, each in enumerate(document)])


def _read(where: str, document: Any) -> tuple[PodShape, float]:
    try:
        entry = msgspec.convert(document, _Entry)
        cpu, memory = float(to_milli(entry.cpu)), float(to_int(entry.memory))
    except (msgspec.ValidationError, InvalidQuantity) as error:
        raise ConfigurationError(f"{where}: {error}") from error
    asked = (entry.gpus, entry.gpu_fraction, entry.gpu_memory)
    if sum(amount != 0 for amount in asked) != 1 or min(asked) < 0:
        raise ConfigurationError(f"{where} must have one of gpus, gpuFraction and gpuMemory, above 0")
    if not (entry.gpu_fraction <= 1 and entry.devices >= 1 and cpu >= 0 and memory >= 0):
        raise ConfigurationError(f"{where}: gpuFraction is at most 1, devices at least 1, cpu and memory at least 0")
    if not (math.isfinite(entry.weight) and entry.weight > 0):
        raise ConfigurationError(f"{where}.weight is {entry.weight:g}, it must be above 0")
    share = None if entry.gpus else GpuShare(entry.gpu_fraction, entry.gpu_memory, entry.devices)
    selector = tuple(sorted(entry.node_selector.items()))
    return PodShape(cpu, memory, float(entry.gpus), share, selector), entry.weight
