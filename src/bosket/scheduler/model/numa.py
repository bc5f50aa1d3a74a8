"""NUMA zones: the amounts of a node's zones, and which requests of a pod its kubelet aligns.

Amounts are integers in the units and under the names of the resource axis, so that charges and credits always cancel
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from bosket.api.core import Container, Pod
from bosket.scheduler.model.resource import Amounts, Quantities, amounts_of, pod_request

#: Resources that the kubelet aligns for Guaranteed pods only; everything else that zones have is a device, for anybody.
_BY_QOS = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"

Named = tuple[tuple[str, int], ...]  #: resource and amount, in order of names
#: Zone and what a pod has there, as annotations and bind requests say it.
Record = tuple[tuple[str, Named], ...]


class Policy(Enum):
    """The kubelet's topology policy: `single` and `restricted` refuse pods that can't be aligned."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE = "single-numa-node"

    @property
    def refuses(self) -> bool:
        return self in (Policy.RESTRICTED, Policy.SINGLE)


class Scope(Enum):
    """Whether containers are aligned one by one, or the pod as a whole."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class NumaZones:
    """The zones of a node, in the order of its kubelet's preference."""

    policy: Policy
    scope: Scope
    ids: tuple[str, ...]
    names: tuple[str, ...]  #: of the resources that zones tell about
    reported: tuple[str, ...]  #: the same as the node's exporter calls them
    allocatable: tuple[tuple[int, ...], ...]  #: by zone and resource
    available: tuple[tuple[int, ...], ...]  #: by zone and resource, as reported
    #: by resource: how much the largest zone may give, the two largest, and so on
    widest: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        columns = zip(*self.allocatable, strict=True) if self.allocatable else ()
        widest = tuple(tuple(accumulate(sorted(column, reverse=True))) for column in columns)
        object.__setattr__(self, "widest", widest)

    def vector(self, amounts: Mapping[str, int]) -> tuple[int, ...]:
        """By resource; what zones don't tell about is left out."""
        return tuple([amounts.get(name, 0) for name in self.names])


class NumaNeeds(NamedTuple):
    """The aligned requests of a pod: of the pod as a whole, and by container. None for pods without any."""

    guaranteed: bool
    pod: Named
    together: tuple[Named, ...]  #: containers and sidecars: they hold what they have beside one another
    apart: tuple[Named, ...]  #: init containers: each gives back what it had before the next begins

    def asks_for(self, resource: str) -> bool:
        return any(name == resource for name, _ in self.pod)


def is_device(resource: str) -> bool:
    """Whether the kubelet aligns the resource for every pod, whatever its quality of service."""
    return resource not in _BY_QOS and not resource.startswith(_HUGE_PAGES)


def needs_of(pod: Pod) -> NumaNeeds | None:
    """The requests of a pod that its kubelet aligns; None without any. Raises InvalidQuantity and UncountableAmount."""
    guaranteed = is_guaranteed(pod)
    spec = pod.spec
    if not guaranteed and not any(_asks_for_device(each) for each in (*spec.containers, *spec.initContainers)):
        return None
    if not spec.initContainers and not spec.overhead:
        return _plain_needs(guaranteed, tuple([_quantities(each) for each in spec.containers]))
    together: list[Named] = []
    apart: list[Named] = []
    for container in spec.initContainers:
        into = together if container.restartPolicy == "Always" else apart
        into.append(_aligned(_amounts(container), guaranteed=guaranteed))
    together += [_aligned(_amounts(each), guaranteed=guaranteed) for each in spec.containers]
    whole = pod_request(spec)
    whole.pop("pods")
    whole["cpu"] = _exclusive_cpu(pod)
    return _needs(guaranteed, _named(whole, guaranteed=guaranteed), tuple(together), tuple(apart))


def is_guaranteed(pod: Pod) -> bool:
    """Whether the pod's quality of service is Guaranteed: as its status says, or as Kubernetes will have it."""
    if pod.status.qosClass:
        return pod.status.qosClass == "Guaranteed"
    containers = (*pod.spec.containers, *pod.spec.initContainers)
    return bool(containers) and all(_is_limited(each) for each in containers)


def _is_limited(container: Container) -> bool:
    """Whether a container has limits of CPU and memory, and requests that are the same."""
    limits = container.resources.limits
    if "cpu" not in limits or "memory" not in limits:
        return False
    requests = {**limits, **container.resources.requests}
    most, asked = (amounts_of({name: of[name] for name in _BY_QOS}) for of in (limits, requests))
    return most == asked and all(most.values())


def _asks_for_device(container: Container) -> bool:
    resources = container.resources
    return any(map(is_device, resources.limits)) or any(map(is_device, resources.requests))


@lru_cache(maxsize=65536)
def _plain_needs(guaranteed: bool, containers: tuple[tuple[Quantities, Quantities], ...]) -> NumaNeeds | None:
    """Of a pod that has only containers, given as requests and limits. Clusters are full of pods that are alike."""
    together = tuple(
        _aligned(amounts_of({**dict(limits), **dict(requests)}), guaranteed=guaranteed)
        for requests, limits in containers
    )
    whole: Amounts = {}
    for each in together:
        for name, amount in each:
            whole[name] = whole.get(name, 0) + amount
    return _needs(guaranteed, tuple(sorted(whole.items())), together, ())


def _needs(guaranteed: bool, pod: Named, together: tuple[Named, ...], apart: tuple[Named, ...]) -> NumaNeeds | None:
    if not guaranteed and not pod and not any(apart):
        return None
    return NumaNeeds(guaranteed, pod, together, apart)


def _quantities(container: Container) -> tuple[Quantities, Quantities]:
    return tuple(container.resources.requests.items()), tuple(container.resources.limits.items())


def _amounts(container: Container) -> Amounts:
    return amounts_of({**container.resources.limits, **container.resources.requests})


def _aligned(amounts: Amounts, *, guaranteed: bool) -> Named:
    """Of what one container asks for. CPUs are a container's own only where it asks for whole ones."""
    if amounts.get("cpu", 0) % 1000:
        amounts = {**amounts, "cpu": 0}
    return _named(amounts, guaranteed=guaranteed)


def _named(amounts: Amounts, *, guaranteed: bool) -> Named:
    return tuple(sorted((name, n) for name, n in amounts.items() if n > 0 and (guaranteed or is_device(name))))


def _exclusive_cpu(pod: Pod) -> int:
    """The most CPUs that the pod's containers have for themselves at one time, in millicores."""
    sidecars = peak = 0
    for container in pod.spec.initContainers:
        cpu = dict(_aligned(_amounts(container), guaranteed=True)).get("cpu", 0)
        if container.restartPolicy == "Always":
            sidecars += cpu
        else:
            peak = max(peak, sidecars + cpu)
    running = sum(dict(_aligned(_amounts(each), guaranteed=True)).get("cpu", 0) for each in pod.spec.containers)
    return max(sidecars + running, peak)
