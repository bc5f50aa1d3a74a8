"""Devices that drivers offer on nodes (dynamic resource allocation), and pods' claims on them.

`state.devices` builds pools from ResourceSlices and needs from pods' claims; the plugin `dynamicresources` allocates.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from bosket.api.core import ContainerExtendedResourceRequest, NodeSelector
from bosket.api.object import ObjectKey
from bosket.api.resource_k8s import AllocationResult, Device, DeviceRequest, ResourceClaimSpec
from bosket.scheduler.model.resource import GPU, ResourceIndex

#: The number of the needs of pods that claim no devices.
NO_DEVICES = -1


class DeviceId(NamedTuple):
    """A device by the names that an allocation uses."""

    driver: str
    pool: str
    device: str


class PoolId(NamedTuple):
    """A pool of devices."""

    driver: str
    pool: str


class DeviceGpus(NamedTuple):
    """GPUs that drivers offer on one node only, allocated or not; they count as the node's GPUs."""

    devices: int
    pools: frozenset[PoolId]


NO_GPUS = DeviceGpus(0, frozenset())


class CounterId(NamedTuple):
    """A counter that devices of a pool share."""

    counters: str
    counter: str


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """One device of a pool, with the nodes that reach it: one, some, or all."""

    id: DeviceId
    device: Device
    node: str
    selector: NodeSelector | None
    everywhere: bool
    draws: tuple[tuple[CounterId, Fraction], ...] = ()  #: what the device consumes of the pool's counters

    @property
    def is_shared(self) -> bool:
        """Whether several requests may have a part of it each."""
        return bool(self.device.allowMultipleAllocations)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The devices of a pool in its newest slices. Replaced as a whole when one of them changes."""

    id: PoolId
    offers: tuple[Offer, ...]
    counters: Mapping[CounterId, Fraction] = field(default_factory=dict)
    problem: str = ""  #: why nothing is allocated from the pool at present; "" if allocation is possible
    #: cache: the offers that match a set of selectors
    matches: dict[Hashable, tuple[bool, ...]] = field(default_factory=dict)

    @property
    def node(self) -> str:
        """The only node that reaches its devices; "" when there are several."""
        nodes = {offer.node for offer in self.offers}
        return nodes.pop() if len(nodes) == 1 else ""


class ClaimRef(NamedTuple):
    """One of a pod's claims."""

    name: str  #: in the pod's spec
    key: ObjectKey  #: of the ResourceClaim
    own: bool  #: made for this pod alone


class ClaimNeed(NamedTuple):
    """A claim as all pods of a class have it."""

    name: str  #: in the pods' spec
    key: ObjectKey | None  #: the very claim; None: each pod has one of its own, which is not allocated
    spec: ResourceClaimSpec


class ExtendedNeed(NamedTuple):
    """An extended resource for which a device class can stand in where a node has none of it."""

    resource: str
    resource_index: ResourceIndex
    amount: int
    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceNeeds:
    """The claims of a class's pods. Equal needs are one object."""

    number: int
    claims: tuple[ClaimNeed, ...]
    extended: tuple[ExtendedNeed, ...]
    gpus: int  #: the GPUs that queues and nodes count for the claims
    #: the claims that are the same for all pods of the class
    common: tuple[ObjectKey, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "common", tuple([each.key for each in self.claims if each.key is not None]))

    @property
    def instead(self) -> frozenset[int]:
        """Places of resources that devices may stand in for: what a node has of them isn't all that counts.

        Of GPUs it is, because devices that drivers offer are among them.
        """
        return frozenset(each.resource_index for each in self.extended if each.resource_index != GPU)


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The present state of a pod's claims."""

    refs: tuple[ClaimRef, ...] = ()
    problem: str = ""  #: why the pod can't run on any node; "" if it can
    #: by claim: the devices in the pod's pending bind request
    promised: tuple[tuple[ObjectKey, AllocationResult], ...] = ()
    promised_extended: AllocationResult | None = None
    gpus: int = 0
    #: those of its devices that are among these GPUs; a device that several pods have counts once on a node
    gpu_devices: tuple[DeviceId, ...] = ()


def devices_of(allocation: AllocationResult | None) -> tuple[DeviceId, ...]:
    """The devices that an allocation holds, without those for administrative access."""
    if allocation is None:
        return ()
    results = allocation.devices.results
    return tuple([DeviceId(each.driver, each.pool, each.device) for each in results if not each.adminAccess])
