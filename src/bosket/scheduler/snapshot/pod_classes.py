"""Which pods are alike: one `PodClass` for all pods that no plugin can tell apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from bosket.api.core import Affinity, Container, NodeSelector, Pod, PodSpec, Toleration
from bosket.api.object import ObjectKey
from bosket.scheduler.model.peer import ANY_ADDRESS, NO_MARKS, HostPort, Mark, Marks, PeerWishes, PodSelector
from bosket.scheduler.model.resource import ResourceAxis, sorted_request
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.model.volume import NO_STORAGE, PodStorage, VolumeNeeds

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - how pods spell it, nobody listens here


Fixed = tuple[tuple[tuple[str, str], ...], NodeSelector | None, bytes, VolumeNeeds | None]
#: What pods that go to any node have in common.
UNPARTICULAR: Fixed = ((), None, b"", None)


class PodClasses:
    """All classes that some pod has. Numbers are never used twice, so that verdicts about a class stay its own."""

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._numbers = count()
        self._fixed_numbers: dict[Hashable, int] = {}

    def of(
        self,
        pod: Pod,
        before: Task | None,
        wishes: PeerWishes | None = None,
        matched: Sequence[PodSelector] = (),
        storage: PodStorage = NO_STORAGE,
    ) -> PodClass:
        """The pod's class; that of the task it had `before`, if what makes a class didn't change.

        `matched`: the selectors of other pods, and its own, that select it. Raises InvalidQuantity for a request that
        is none.
        """
        spec = pod.spec
        ports, refers = _ports_and_references(spec)
        volumes, exclusive = storage.needs, storage.exclusive
        marks = _marks(ports, wishes, matched, exclusive) if ports or wishes or matched or exclusive else NO_MARKS
        nominated = pod.status.nominatedNodeName if not spec.nodeName else ""
        # What few pods have is left out of the others' signature, which is made for every pod.
        special = (ports, wishes, marks, nominated, refers) if nominated or refers or marks is not NO_MARKS else None
        if before is not None and _alike(before.pod.spec, spec):
            known = before.pod_class
            if known.special == special and known.volumes == volumes:
                return known
        request = sorted_request(spec)
        tolerations: tuple[Toleration, ...] = ()
        required: NodeSelector | None = None
        fixed = UNPARTICULAR
        if spec.tolerations or spec.nodeSelector or spec.affinity is not None or volumes is not None:
            tolerations = tuple(msgspec.structs.replace(each, tolerationSeconds=None) for each in spec.tolerations)
            required = _required_nodes(spec.affinity) if spec.affinity is not None else None
            selector = tuple(sorted(spec.nodeSelector.items()))
            fixed = (selector, required, msgspec.json.encode(tolerations) if tolerations else b"", volumes)
        signature = (request, fixed, special)
        found = self._classes.get(signature)
        if found is None:
            amounts = dict(request)
            self._axis.learn(amounts)
            found = PodClass(
                next(self._numbers), self._axis.vector(amounts), dict(spec.nodeSelector), required, tolerations, ports,
                fixed_index=self._fixed_numbers.setdefault(fixed, len(self._fixed_numbers)),
                wishes=wishes, marks=marks, volumes=volumes, nominated_node=nominated, refers=refers, special=special,
            )  # fmt: skip
            self._classes[signature] = found
        return found


def _alike(before: PodSpec, after: PodSpec) -> bool:
    """Whether two specs are the same, as far as classes go; what isn't compared here is part of marks and volumes."""
    return before is after or (
        before.containers == after.containers
        and before.initContainers == after.initContainers
        and before.tolerations == after.tolerations
        and before.nodeSelector == after.nodeSelector
        and before.affinity == after.affinity
        and before.topologySpreadConstraints == after.topologySpreadConstraints
        and before.overhead == after.overhead
    )


def _required_nodes(affinity: Affinity) -> NodeSelector | None:
    nodes = affinity.nodeAffinity
    return nodes.requiredDuringSchedulingIgnoredDuringExecution if nodes else None


def _ports_and_references(spec: PodSpec) -> tuple[tuple[HostPort, ...], bool]:
    """The ports that the pod takes on its node, and whether it may refer to ConfigMaps at all."""
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


def _marks(
    ports: Iterable[HostPort],
    wishes: PeerWishes | None,
    matched: Sequence[PodSelector],
    exclusive: Iterable[ObjectKey],
) -> Marks:
    lasting: list[Mark] = []
    for port in ports:
        lasting += (port, port._replace(address=ANY_ADDRESS))
    lasting += wishes.terms if wishes is not None else ()
    lasting += (selector for selector in matched if not selector.staying)
    lasting += exclusive
    return Marks(tuple(lasting), tuple(selector for selector in matched if selector.staying))
