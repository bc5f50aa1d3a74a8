"""Resource amounts as vectors over one axis of resource names.

CPU is in millicores, memory in bytes, GPUs in devices (NVIDIA's and AMD's count alike), everything else in its own
unit. The first four indexes are fixed; extended resources follow in the order in which they were first seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Sized
from functools import lru_cache
from typing import NewType, cast

import numpy as np
from numpy.typing import NDArray

from bosket.api.core import Container, PodSpec
from bosket.api.keys import MIG_RESOURCE_PREFIX
from bosket.api.quantity import Quantity, to_int, to_milli

Vector = NDArray[np.float64]  #: (resource,), in the axis' units
Amounts = dict[str, int]  #: resource name → amount, in the axis' units
Quantities = tuple[tuple[str, Quantity], ...]  #: resource name and amount as on the wire

#: The index of a resource on the axis: its row in arrays over (resource, node), its position in vectors.
ResourceIndex = NewType("ResourceIndex", int)
ResourceAmounts = tuple[tuple[ResourceIndex, float], ...]

CPU, MEMORY, GPU, PODS = map(ResourceIndex, range(4))
FIXED_NAMES = ("cpu", "memory", "gpu", "pods")
GPU_NAMES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
#: The resources that queues account for, by their indexes on the axis, and in KAI's words.
QUEUE_RESOURCES = (GPU, CPU, MEMORY)
QUEUE_RESOURCE_NAMES = ("GPUs", "CPU cores", "GB memory")
QueueAmounts = tuple[float, float, float]  #: GPUs, millicores, bytes
NOTHING: QueueAmounts = (0.0, 0.0, 0.0)


def all_resources(names: Sized) -> Sequence[ResourceIndex]:
    """The indexes of these resources, where they are all that there are."""
    return cast("Sequence[ResourceIndex]", range(len(names)))


def resources_in(amounts: Vector) -> list[ResourceIndex]:
    """The indexes of the resources of which there are any, in order."""
    return cast("list[ResourceIndex]", np.flatnonzero(amounts > 0).tolist())


def plus(left: QueueAmounts, right: QueueAmounts) -> QueueAmounts:
    """The sum, resource by resource."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: QueueAmounts, right: QueueAmounts) -> QueueAmounts:
    """The difference, resource by resource."""
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


_MIG_PROFILE = re.compile(re.escape(MIG_RESOURCE_PREFIX) + r"([0-9]{1,3})g\.[0-9]{1,6}gb", re.ASCII)


@lru_cache(maxsize=1024)
def mig_gpus(resource: str) -> int:
    """What queues account for an instance of a partitioned GPU: `nvidia.com/mig-3g.40gb` is three; 0 for others."""
    found = _MIG_PROFILE.fullmatch(resource)
    return int(found[1]) if found is not None else 0


class ResourceAxis:
    """Maps resource names to indexes in vectors. Grows when a new extended resource is seen, never shrinks."""

    def __init__(self) -> None:
        self.names: list[str] = list(FIXED_NAMES)
        self._indexes = dict(zip(self.names, all_resources(self.names), strict=True))

    def __len__(self) -> int:
        return len(self.names)

    def learn(self, names: Iterable[str]) -> None:
        """Adds these resources to the axis. When it grows, vectors made before are too short."""
        for name in names:
            if name not in self._indexes:
                self._indexes[name] = ResourceIndex(len(self.names))
                self.names.append(name)

    def index_of(self, name: str) -> ResourceIndex:
        """The index of a resource that was learned."""
        return self._indexes[name]

    def row(self, amounts: Iterable[tuple[str, int]]) -> tuple[float, ...]:
        """The amounts by resource index."""
        result, indexes = [0.0] * len(self.names), self._indexes
        for name, amount in amounts:
            result[indexes[name]] = float(amount)
        return tuple(result)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        return np.array(self.row(amounts.items()), dtype=np.float64)


#: The most that Kubernetes itself can count.
LARGEST = 2**63 - 1


class UncountableAmount(ValueError):
    """An amount above the maximum of Kubernetes, or negative."""


def amounts_of(quantities: Mapping[str, Quantity]) -> Amounts:
    """Kubernetes quantities in the axis' units and under its names. Raises InvalidQuantity or UncountableAmount."""
    result: Amounts = {}
    for name, quantity in quantities.items():
        if name == "cpu":
            result["cpu"] = to_milli(quantity)
        elif name in GPU_NAMES:
            result["gpu"] = result.get("gpu", 0) + to_int(quantity)
        else:
            result[name] = to_int(quantity)
    for name, amount in result.items():
        if not 0 <= amount <= LARGEST:
            raise UncountableAmount(f"{name} is {str(amount)[:40]}, it must be between 0 and {LARGEST}")
    return result


@lru_cache(maxsize=4096)
def shared_amounts(quantities: Quantities) -> Mapping[str, int]:
    """The same for nodes: equal amounts are the very same object, because most nodes are alike."""
    return amounts_of(dict(quantities))


def pod_request(spec: PodSpec) -> Amounts:
    """What a pod needs at its peak, by Kubernetes' rules, and one of the node's pod slots.

    Containers and restartable init containers (sidecars) run together; an ordinary init container runs beside the
    sidecars that were declared before it.
    """
    running: Amounts = {}
    for container in spec.containers:
        _add(running, _container_request(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.initContainers:
        request = _container_request(container)
        if container.restartPolicy == "Always":
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _sum(sidecars, request))
    _add(running, sidecars)
    _raise_to(running, peak)
    if spec.overhead:
        _add(running, amounts_of(spec.overhead))
    running["pods"] = 1
    return running


def sorted_request(spec: PodSpec) -> tuple[tuple[str, int], ...]:
    """The same in order of names. Clusters are full of pods that ask for the same: that is counted once."""
    if spec.initContainers or spec.overhead:
        return tuple(sorted(pod_request(spec).items()))
    return _plain_request(
        tuple(
            [(tuple(each.resources.requests.items()), tuple(each.resources.limits.items())) for each in spec.containers]
        )
    )


@lru_cache(maxsize=65536)
def _plain_request(containers: tuple[tuple[Quantities, Quantities], ...]) -> tuple[tuple[str, int], ...]:
    """Of a pod that has only containers, given as requests and limits."""
    running: Amounts = {}
    for requests, limits in containers:
        _add(running, amounts_of({**dict(limits), **dict(requests)}))
    running["pods"] = 1
    return tuple(sorted(running.items()))


def _container_request(container: Container) -> Amounts:
    """Requests; where only a limit is given, Kubernetes takes the limit for the request."""
    resources = container.resources
    return amounts_of({**resources.limits, **resources.requests})


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    result = dict(left)
    _add(result, right)
    return result


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount
