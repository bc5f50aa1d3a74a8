"""NumaTopologies: NodeResourceTopologies as the scheduler reads them, and the known zones of pods.

The live state reports objects; unreadable ones are reported and left out. Policy and scope are attributes, or in the
field that older exporters fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from bosket.api.core import Pod
from bosket.api.kai import NUMAZonePlacement
from bosket.api.keys import NUMA_OBSERVED_ANNOTATION, NUMA_PREDICTED_ANNOTATION
from bosket.api.node_topology import NodeResourceTopology, Zone
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity
from bosket.scheduler.model.numa import NumaZones, Policy, Record, Scope
from bosket.scheduler.model.resource import GPU_NAMES, Amounts, UncountableAmount, amounts_of
from bosket.scheduler.model.shared import Shared

_POLICY: Final = "topologyManagerPolicy"
_SCOPE: Final = "topologyManagerScope"
#: The values of older exporters; each means a policy and a scope.
_COMBINED: Final[Mapping[str, tuple[Policy, Scope]]] = {
    "SingleNUMANodePodLevel": (Policy.SINGLE, Scope.POD),
    "SingleNUMANodeContainerLevel": (Policy.SINGLE, Scope.CONTAINER),
    "RestrictedPodLevel": (Policy.RESTRICTED, Scope.POD),
    "Restricted": (Policy.RESTRICTED, Scope.CONTAINER),
    "RestrictedContainerLevel": (Policy.RESTRICTED, Scope.CONTAINER),
    "BestEffortPodLevel": (Policy.BEST_EFFORT, Scope.POD),
    "BestEffort": (Policy.BEST_EFFORT, Scope.CONTAINER),
    "BestEffortContainerLevel": (Policy.BEST_EFFORT, Scope.CONTAINER),
    "None": (Policy.NONE, Scope.CONTAINER),
}

#: The type of zones that are NUMA nodes.
_ZONE = "Node"

Report = Callable[[str], None]


class NumaTopologies:
    """All NodeResourceTopologies, by node name."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.objects: dict[str, NodeResourceTopology] = {}
        self._zones: Shared[str, NumaZones] = Shared()
        self.unread: set[ObjectKey] = set()  #: those whose zones can't be read
        self.any = False  #: whether any node tells about its zones

    def put(self, topology: NodeResourceTopology) -> bool:
        """True when a relevant field changed."""
        name = topology.metadata.name
        before = self.objects.get(name)
        self.objects[name] = topology
        if before is not None and _says(before) == _says(topology):
            return False
        zones = zones_of(topology, self._report)
        self.unread.discard(topology.key)
        if zones is None and any(each.type == _ZONE for each in topology.zones):
            self.unread.add(topology.key)
        if zones == self._zones.get(name, None):
            return False
        if zones is None:
            self._zones.drop(name)
        else:
            self._zones.put(name, zones)
        self.any = bool(self._zones)
        return True

    def drop(self, name: str) -> bool:
        known = name in self._zones
        self.objects.pop(name, None)
        self.unread.discard(ObjectKey("", name))
        self._zones.drop(name)
        self.any = bool(self._zones)
        return known

    def freeze(self) -> Mapping[str, NumaZones]:
        return self._zones.freeze()


def zones_of(topology: NodeResourceTopology, report: Report) -> NumaZones | None:
    """What the object says of its node's zones; None when there are none, or when they can't be read."""
    of_object = f"NodeResourceTopology {topology.metadata.name}"
    numa_nodes = sorted((zone for zone in topology.zones if zone.type == _ZONE), key=_rank)
    if not numa_nodes:
        return None
    try:
        allocatable = [_amounts(zone, "allocatable") for zone in numa_nodes]
        available = [_amounts(zone, "available") for zone in numa_nodes]
    except ValueError as error:
        report(f"{of_object}: {error}; the node is taken for one without zones")
        return None
    names = tuple(sorted({name for zone in (*allocatable, *available) for name in zone}))
    policy, scope = _policy_and_scope(topology, of_object, report)
    return NumaZones(
        policy=policy,
        scope=scope,
        ids=tuple(zone.name for zone in numa_nodes),
        names=names,
        reported=tuple(_reported(name, numa_nodes) for name in names),
        allocatable=tuple(tuple(zone.get(name, 0) for name in names) for zone in allocatable),
        available=tuple(tuple(zone.get(name, 0) for name in names) for zone in available),
    )


def record_of(pod: Pod, requested: Iterable[NUMAZonePlacement], report: Report) -> Record:
    """The zones of a pod: as observed, else as in its bind request, else as expected.

    Empty when unknown or unreadable.
    """
    annotations = pod.metadata.annotations
    observed = _annotated(pod, NUMA_OBSERVED_ANNOTATION, report) if NUMA_OBSERVED_ANNOTATION in annotations else ()
    if observed:
        return observed
    under_way = _record(requested, f"the bind request of pod {pod.key}: spec.predictedNUMAZones", report)
    if under_way or NUMA_PREDICTED_ANNOTATION not in annotations:
        return under_way
    return _annotated(pod, NUMA_PREDICTED_ANNOTATION, report)


def _annotated(pod: Pod, annotation: str, report: Report) -> Record:
    where = f"Pod {pod.key}: annotation {annotation}"
    try:
        placements = msgspec.json.decode(pod.metadata.annotations[annotation], type=list[NUMAZonePlacement])
    except msgspec.DecodeError as error:
        report(f'{where}: {error}; it must be like [{{"zone": "node-0", "amount": {{"cpu": "4"}}}}], and is ignored')
        return ()
    if not placements:
        report(f"{where}: it names no zone, and is ignored")
    return _record(placements, where, report)


def _record(placements: Iterable[NUMAZonePlacement], where: str, report: Report) -> Record:
    try:
        return tuple((each.zone, tuple(sorted(amounts_of(each.amount).items()))) for each in placements)
    except (InvalidQuantity, UncountableAmount) as error:
        report(f"{where}: {error}; it is ignored")
        return ()


def _says(topology: NodeResourceTopology) -> object:
    return topology.zones, topology.attributes, topology.topologyPolicies


def _amounts(zone: Zone, what: str) -> Amounts:
    try:
        return amounts_of({each.name: getattr(each, what) for each in zone.resources})
    except (InvalidQuantity, UncountableAmount) as error:
        raise ValueError(f"zones[{zone.name}].resources: {what}: {error}") from None


def _reported(name: str, zones: Iterable[Zone]) -> str:
    """What the node calls a resource of the axis; GPUs have a name for each vendor."""
    if name != "gpu":
        return name
    return max((each.name for zone in zones for each in zone.resources if each.name in GPU_NAMES), default=name)


def _rank(zone: Zone) -> tuple[bool, int, str]:
    """The kubelet prefers zones with small numbers; exporters write the number at the end of the name."""
    digits = zone.name[len(zone.name.rstrip("0123456789")) :]
    return (not digits, int(digits[:18]) if digits else 0, zone.name)


def _policy_and_scope(topology: NodeResourceTopology, of_object: str, report: Report) -> tuple[Policy, Scope]:
    attributes = {each.name: each.value for each in topology.attributes}
    policy = attributes.get(_POLICY, "")
    if not policy:
        return _combined(topology.topologyPolicies, of_object, report)
    scope = attributes.get(_SCOPE, "") or Scope.CONTAINER.value
    if policy not in {each.value for each in Policy}:
        known = ", ".join(each.value for each in Policy)
        report(f"{of_object}: attributes: {_POLICY} is {policy!r}, known are {known}; it is taken for none")
        policy = Policy.NONE.value
    if scope not in {each.value for each in Scope}:
        report(
            f"{of_object}: attributes: {_SCOPE} is {scope!r}, known are container and pod; it is taken for container"
        )
        scope = Scope.CONTAINER.value
    return Policy(policy), Scope(scope)


def _combined(policies: tuple[str, ...], of_object: str, report: Report) -> tuple[Policy, Scope]:
    """Only the first counts, as in KAI."""
    if not policies:
        return Policy.NONE, Scope.CONTAINER
    if policies[0] not in _COMBINED:
        report(f"{of_object}: topologyPolicies[0] is {policies[0]!r}, which nobody knows; it is taken for none")
    return _COMBINED.get(policies[0], (Policy.NONE, Scope.CONTAINER))
