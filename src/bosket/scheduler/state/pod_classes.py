"""PodClasses: one `PodClass` for all pods that no plugin can distinguish."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import count
from operator import attrgetter
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from bosket.api.core import Affinity, Container, NodeSelector, Pod, PodSpec, Toleration
from bosket.api.keys import (
    APP_LABEL,
    GPU_FRACTION_ANNOTATION,
    GPU_FRACTION_DEVICES_ANNOTATION,
    GPU_MEMORY_ANNOTATION,
    MIG_RESOURCE_PREFIX,
    RESERVATION_APP,
)
from bosket.api.object import ObjectKey
from bosket.scheduler.model.device import DeviceNeeds
from bosket.scheduler.model.gpu_share import GpuShare, UnusableShare, share_of
from bosket.scheduler.model.numa import NumaNeeds
from bosket.scheduler.model.pod_affinity import (
    ANY_ADDRESS,
    NO_MATCH_KEYS,
    AffinityTerms,
    HostPort,
    MatchKey,
    MatchKeys,
    PodSelector,
)
from bosket.scheduler.model.resource import FIXED_NAMES, GPU, ResourceAxis, mig_gpus, sorted_request
from bosket.scheduler.model.task import ClassIndex, Mig, PodClass, Task
from bosket.scheduler.model.volume import NO_STORAGE, PodStorage, VolumeNeeds

SHARING = frozenset({GPU_FRACTION_ANNOTATION, GPU_MEMORY_ANNOTATION, GPU_FRACTION_DEVICES_ANNOTATION})
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - how pods spell it, nobody listens here


#: The number of different demands on nodes' fixed properties that are kept.
MOST_FIXED = 65_536

Fixed = tuple[tuple[tuple[str, str], ...], NodeSelector | None, bytes, VolumeNeeds | None]
#: The fixed demands of pods that may go to any node.
UNPARTICULAR: Fixed = ((), None, b"", None)


class PodClasses:
    """All classes of existing pods. Numbers are never reused, so that remembered verdicts can't be mistaken for another
    class's."""

    def __init__(self, axis: ResourceAxis, reservation_app: str = RESERVATION_APP) -> None:
        """`reservation_app`: the label `app` of reservation pods."""
        self._axis = axis
        self._reservation_app = reservation_app
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._numbers = count()
        self._fixed_numbers: dict[Hashable, int] = {}
        self._next_fixed = count()
        # The latest pod's signature and class.
        self._latest: tuple[object, bool, PodClass | None] = (None, False, None)

    def of(
        self,
        pod: Pod,
        before: Task | None,
        affinity_terms: AffinityTerms | None = None,
        matched: Sequence[PodSelector] = (),
        storage: PodStorage = NO_STORAGE,
        *,
        numa: NumaNeeds | None = None,
        device_needs: DeviceNeeds | None = None,
    ) -> PodClass:
        """The pod's class; `before`'s class if the signature didn't change.

        A new pod is compared with the latest one first: pods of a job arrive one after another, and comparing two specs
        is far cheaper than computing a signature.

        `matched`: the selectors, of other pods and its own, that select the pod. Raises InvalidQuantity,
        UncountableAmount or UnusableShare for an invalid request.
        """
        spec = pod.spec
        basis, has_volumes = _basis(spec), bool(spec.volumes)
        if before is None:
            kin_basis, kin_has_volumes, kin = self._latest
        else:
            earlier = before.pod.spec
            kin_basis, kin_has_volumes, kin = _basis(earlier), bool(earlier.volumes), before.pod_class
        known = kin if kin_basis == basis and kin_has_volumes is has_volumes else None
        if known is not None:
            ports, refers = known.host_ports, known.refers
        else:
            ports, refers = _ports_and_references(spec)
        nominated = pod.status.nominatedNodeName if not spec.nodeName else ""
        devices = self._devices_of(pod)
        # Rare properties are added only where present: the signature is computed for every pod.
        match_keys, special = NO_MATCH_KEYS, None
        if nominated or refers or ports or affinity_terms or matched or devices is not NO_DEVICES:
            exclusive = storage.exclusive
            if ports or affinity_terms or matched or exclusive:
                match_keys = _match_keys_of(ports, affinity_terms, matched, exclusive)
            # A pod with volumes refers to other objects.
            special = (ports, affinity_terms, match_keys, nominated, refers, storage.needs, devices, storage.contest)
        if known is not None and known.special == special and known.numa == numa and known.device_needs is device_needs:
            return known
        request = sorted_request(spec)
        if devices is not NO_DEVICES:
            request = devices.instead_of(request)
        tolerations: tuple[Toleration, ...] = ()
        required: NodeSelector | None = None
        volumes, fixed = storage.needs, UNPARTICULAR
        if spec.tolerations or spec.nodeSelector or spec.affinity is not None or volumes is not None:
            tolerations = tuple(msgspec.structs.replace(each, tolerationSeconds=None) for each in spec.tolerations)
            required = _required_nodes(spec.affinity) if spec.affinity is not None else None
            selector = tuple(sorted(spec.nodeSelector.items()))
            fixed = (selector, required, msgspec.json.encode(tolerations) if tolerations else b"", volumes)
        signature = (request, fixed, special, numa, device_needs)
        found = self._classes.get(signature)
        if found is None:
            self._axis.learn([name for name, _ in request])
            instances = [each for each in request if each[0].startswith(MIG_RESOURCE_PREFIX) and each[1]]
            migs = sum(mig_gpus(name) * amount for name, amount in instances) if instances else 0
            mig = Mig.LEGACY if devices.instances else Mig.PROFILE if instances else Mig.NONE
            extra_gpus = float(migs + (device_needs.gpus if device_needs is not None else 0))
            found = PodClass(
                ClassIndex(next(self._numbers)), self._axis.row(request), dict(spec.nodeSelector), required,
                tolerations, ports,
                fixed_index=self._fixed_number(fixed),
                affinity_terms=affinity_terms, match_keys=match_keys, volumes=volumes, share=devices.share, mig=mig,
                extra_gpus=extra_gpus,
                device_needs=device_needs, contest=storage.contest, nominated_node=nominated, refers=refers,
                special=special,
                numa=numa,
            )  # fmt: skip
            self._classes[signature] = found
        self._latest = (basis, has_volumes, found)
        return found

    def _fixed_number(self, fixed: Fixed) -> int:
        """A number for equal demands on nodes' fixed properties. Volume claims come and go, each with its own nodes, so
        the table is bounded; after a purge equal classes get another number, which costs one more evaluation of
        filters."""
        number = self._fixed_numbers.get(fixed)
        if number is None:
            if len(self._fixed_numbers) >= MOST_FIXED:
                self._fixed_numbers.clear()
            number = self._fixed_numbers[fixed] = next(self._next_fixed)
        return number

    def _devices_of(self, pod: Pod) -> DeviceRequests:
        metadata = pod.metadata
        if metadata.labels.get(APP_LABEL) == self._reservation_app:
            return NOTHING_BUT_A_PLACE
        annotations = metadata.annotations
        # One search over all names joined: most pods have annotations, but rarely these.
        if SHARING.isdisjoint(annotations) and MIG_RESOURCE_PREFIX not in " ".join(annotations):
            return NO_DEVICES
        about = _about_devices(tuple(annotations))
        return _device_requests(pod, about) if about else NO_DEVICES


class DeviceRequests(NamedTuple):
    """What a pod requests of GPUs by annotations instead of container requests."""

    share: GpuShare | None = None
    instances: tuple[tuple[str, int], ...] = ()  #: of partitioned GPUs, by profile
    takes_gpus: bool = True  #: whether whole GPUs among its requests count

    def instead_of(self, request: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """The container requests with these annotations applied."""
        if not self.instances and all(name != FIXED_NAMES[GPU] for name, _ in request):
            return request
        amounts = {name: amount for name, amount in request if name != FIXED_NAMES[GPU]}
        return tuple(sorted({**amounts, **dict(self.instances)}.items()))


NO_DEVICES = DeviceRequests()
#: The pod that holds a shared GPU for others, which are accounted for it.
NOTHING_BUT_A_PLACE = DeviceRequests(takes_gpus=False)


@lru_cache(maxsize=4096)
def _about_devices(annotations: tuple[str, ...]) -> tuple[str, ...]:
    """The annotations that may request GPUs."""
    return tuple(name for name in annotations if name in SHARING or name.startswith(MIG_RESOURCE_PREFIX))


def _device_requests(pod: Pod, about: tuple[str, ...]) -> DeviceRequests:
    """The requests in the annotations. Raises UnusableShare, unless the pod already runs: then there is nothing to
    refuse."""
    annotations = pod.metadata.annotations
    try:
        return _requests_in(tuple([(name, annotations[name]) for name in about]))
    except UnusableShare:
        if not pod.spec.nodeName:
            raise
        return NO_DEVICES


@lru_cache(maxsize=65536)
def _requests_in(annotations: tuple[tuple[str, str], ...]) -> DeviceRequests:
    instances = tuple(
        (name, int(text))
        for name, text in sorted(annotations)
        if name.startswith(MIG_RESOURCE_PREFIX) and text.isascii() and text.isdigit() and len(text) < 10
    )
    share = None if instances else share_of(dict(annotations))
    found = DeviceRequests(share, instances)
    return found if found != NO_DEVICES else NO_DEVICES


#: The parts of a spec that determine the class, without match keys and volumes.
_basis = attrgetter(
    "containers", "initContainers", "tolerations", "nodeSelector", "affinity", "topologySpreadConstraints", "overhead"
)


def _required_nodes(affinity: Affinity) -> NodeSelector | None:
    nodes = affinity.nodeAffinity
    return nodes.requiredDuringSchedulingIgnoredDuringExecution if nodes else None


def _ports_and_references(spec: PodSpec) -> tuple[tuple[HostPort, ...], bool]:
    """The host ports of the pod, and whether it may refer to ConfigMaps."""
    refers = bool(spec.volumes)
    ports: tuple[HostPort, ...] = ()
    for container in spec.containers:
        if container.ports:
            ports += _host_ports(container)
        if container.env or container.envFrom:
            refers = True
    for container in spec.initContainers:
        if container.ports and container.restartPolicy == "Always":
            ports += _host_ports(container)
        if container.env or container.envFrom:
            refers = True
    return (tuple(sorted(set(ports))) if ports else ()), refers


def _host_ports(container: Container) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.hostPort, port.protocol or "TCP", "" if port.hostIP == ALL_ADDRESSES else port.hostIP)
        for port in container.ports
        if port.hostPort > 0
    )


def _match_keys_of(
    ports: Iterable[HostPort],
    affinity_terms: AffinityTerms | None,
    matched: Sequence[PodSelector],
    exclusive: Iterable[ObjectKey],
) -> MatchKeys:
    lasting: list[MatchKey] = []
    for port in ports:
        lasting += (port, port._replace(address=ANY_ADDRESS))
    lasting += affinity_terms.terms if affinity_terms is not None else ()
    lasting += (selector for selector in matched if not selector.staying)
    lasting += exclusive
    return MatchKeys(tuple(lasting), tuple(selector for selector in matched if selector.staying))
