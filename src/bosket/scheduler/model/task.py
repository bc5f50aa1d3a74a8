"""A task: one pod as a scheduling cycle sees it, and its pod class."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import Enum, IntEnum
from operator import attrgetter
from typing import NewType

import msgspec
import numpy as np
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from bosket.api.core import NodeSelector, Pod, Toleration
from bosket.api.object import ObjectKey
from bosket.scheduler.model.device import NO_DEVICES, DeviceNeeds, PodDevices
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.numa import NumaNeeds, Record
from bosket.scheduler.model.pod_affinity import NO_MATCH_KEYS, AffinityTerms, HostPort, MatchKeys, PodSelector
from bosket.scheduler.model.resource import CPU, GPU, MEMORY, NOTHING, PODS, QueueAmounts, ResourceAmounts, Vector
from bosket.scheduler.model.volume import NO_STORAGE, Contest, PodStorage, VolumeNeeds


class TaskStatus(IntEnum):
    """The status of a task in a cycle."""

    PENDING = 0
    GATED = 1
    ALLOCATED = 2  #: decided in this cycle, on free resources
    PIPELINED = 3  #: decided in this cycle, on resources that are being released
    BINDING = 4  #: a bind request is under way
    BOUND = 5
    RUNNING = 6
    RELEASING = 7
    STUCK_IN_RELEASING = 8  #: terminating for far longer than its grace period; its resources can't be counted on
    SUCCEEDED = 9
    FAILED = 10

    __hash__ = int.__hash__  # an Enum's own goes by the name, in Python; statuses are looked up in sets all the time


#: hold resources of a node
ACTIVE_USED = frozenset(
    {
        TaskStatus.ALLOCATED,
        TaskStatus.PIPELINED,
        TaskStatus.BINDING,
        TaskStatus.BOUND,
        TaskStatus.RUNNING,
        TaskStatus.RELEASING,
        TaskStatus.STUCK_IN_RELEASING,
    }
)
#: count towards a gang's minimum
ACTIVE_ALLOCATED = frozenset(
    {TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING}
)
#: count towards a queue's use
ALLOCATED = frozenset({TaskStatus.ALLOCATED, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING})
#: have a node, but aren't bound yet
UNBOUND = frozenset({TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING})
#: have no node
WAITING = frozenset({TaskStatus.PENDING, TaskStatus.GATED})
#: may still make a gang complete
ALIVE = ACTIVE_ALLOCATED | WAITING


class Mig(Enum):
    """How a pod asks for instances of a partitioned GPU."""

    NONE = "none"
    PROFILE = "profile"  #: as extended resources
    LEGACY = "legacy"  #: by an annotation; such pods are left where they are

    __hash__ = object.__hash__  # as above


#: The number of a pod class: the key of a class in caches.
ClassIndex = NewType("ClassIndex", int)
#: The number of the affinity terms of pods that ask nothing of their neighbours.
NO_AFFINITY_TERMS = -1


class PodClass(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Pods that no plugin can distinguish: what depends on the class and a node alone is computed once."""

    index: ClassIndex
    amounts: tuple[float, ...]  #: by resource, what each of them asks for
    node_selector: dict[str, str]
    required_nodes: NodeSelector | None  #: by the pods' node affinity
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    #: equal for classes with equal demands on nodes' fixed properties
    fixed_index: int
    affinity_terms: AffinityTerms | None = None  #: their affinity terms
    match_keys: MatchKeys = NO_MATCH_KEYS  #: the match keys by which they are counted on their node
    volumes: VolumeNeeds | None = None
    contest: Contest | None = None  #: what of volumes the pods take from others
    share: GpuShare | None = None  #: of GPUs that they share; then `amounts` has none
    mig: Mig = Mig.NONE
    extra_gpus: float = 0.0  #: what queues account for beside the GPUs in `amounts`
    numa: NumaNeeds | None = None  #: requests that are aligned to NUMA zones, where nodes report zones
    device_needs: DeviceNeeds | None = None  #: what their resource claims ask for
    nominated_node: str = ""  #: nominated node names
    #: whether the pods may refer to ConfigMaps; to which ones, each pod says for itself
    refers: bool = False
    special: Hashable = None  #: all that few pods have, for comparison: from ports to references; None for most classes

    # What follows from the above.
    #: what is asked for, `pods` apart
    needs: ResourceAmounts = ()
    #: the same, with `pods`
    holds: ResourceAmounts = ()
    #: what is asked for of the resources that queues account for; GPU memory apart, which depends on the device
    charge: QueueAmounts = NOTHING
    wants_gpu: bool = False
    _request: Vector | None = None

    def __post_init__(self) -> None:
        amounts = self.amounts
        holds = tuple([each for each in enumerate(amounts) if each[1]])
        served = self.device_needs.instead if self.device_needs is not None else ()
        needs = tuple([each for each in holds if each[0] != PODS and each[0] not in served])
        force_setattr(self, "needs", needs)
        force_setattr(self, "holds", holds)
        gpus = amounts[GPU] + self.extra_gpus + (self.share.gpus_by(None) if self.share is not None else 0.0)
        force_setattr(self, "charge", (gpus, amounts[CPU], amounts[MEMORY]))
        force_setattr(self, "wants_gpu", gpus > 0 or self.share is not None or self.mig is not Mig.NONE)

    @property
    def request(self) -> Vector:
        """`amounts` as an array, made when the first node is looked at: most classes that come and go never fit."""
        if self._request is None:
            force_setattr(self, "_request", np.array(self.amounts, dtype=np.float64))
        assert self._request is not None
        return self._request

    @property
    def needed(self) -> NDArray[np.intp]:
        """The resource indexes of `needs`."""
        return np.array([resource for resource, _ in self.needs], dtype=np.intp)

    def demand_by(self, device_mib: int | None) -> Vector:
        """`request`, with the parts of shared GPUs in it, if all devices were of this size."""
        if self.share is None:
            return self.request
        demand = self.request.copy()
        demand[GPU] = self.share.gpus_by(device_mib)
        return demand

    def charge_by(self, device_mib: int | None) -> QueueAmounts:
        """`charge`, if all devices were of this size."""
        if self.share is None:
            return self.charge
        return self.share.gpus_by(device_mib), self.charge[1], self.charge[2]

    def charge_on(self, device_mib: int) -> QueueAmounts:
        """`charge`, for a pod that is on a node with devices of this size."""
        if self.share is None:
            return self.charge
        return self.share.gpus_on(device_mib), self.charge[1], self.charge[2]

    def required_on(self, device_mib: int) -> QueueAmounts:
        """`charge`, as a queue must have it left for a pod to go there."""
        if self.share is None:
            return self.charge
        return self.share.required_on(device_mib), self.charge[1], self.charge[2]

    @property
    def kind(self) -> tuple[object, ...]:
        """What nodes and plugins treat its pods by, what they ask for apart. Kinds can be put in order."""
        devices = NO_DEVICES if self.device_needs is None else self.device_needs.number
        if self.match_keys is NO_MATCH_KEYS and self.affinity_terms is None and self.contest is None:
            return (self.fixed_index, devices, (), NO_AFFINITY_TERMS, (), self.numa or (), ())
        matched = tuple(match_key.number for match_key in self.match_keys.lasting if isinstance(match_key, PodSelector))
        affinity_terms = NO_AFFINITY_TERMS if self.affinity_terms is None else self.affinity_terms.number
        extent = self.contest.extent if self.contest is not None else ()
        return (self.fixed_index, devices, self.host_ports, affinity_terms, matched, self.numa or (), extent)


class Task(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod in one cycle. Replaced as a whole when its pod changes."""

    key: ObjectKey
    pod: Pod
    pod_class: PodClass
    status: TaskStatus
    node: str  #: where it is or will be; empty while nothing is decided
    group: ObjectKey | None  #: the pod group it belongs to, if it is ours to schedule
    subgroup: str
    created: float
    task_priority: int | None
    gpu_groups: tuple[str, ...] = ()  #: the shared GPUs that it is on or will be
    storage: PodStorage = NO_STORAGE  #: its volume claims as they stand
    numa_record: Record = ()  #: in which NUMA zones of its node it is, if that is known
    devices: PodDevices | None = None  #: its resource claims

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid or str(self.key)


_name, _namespace = attrgetter("key.name"), attrgetter("key.namespace")


def in_order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """By their keys. Two sorts by texts cost half of one by pairs of them."""
    ordered = list(tasks)
    if len(ordered) > 1:
        ordered.sort(key=_name)
        ordered.sort(key=_namespace)
    return tuple(ordered)
