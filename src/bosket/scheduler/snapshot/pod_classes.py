"""Which pods are alike: one `PodClass` for all pods that no plugin can tell apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from bosket.api.core import Container, Pod, PodSpec
from bosket.scheduler.model.resource import ResourceAxis, pod_request
from bosket.scheduler.model.task import HostPort, PodClass, Task


class PodClasses:
    """All classes that some pod has. Numbers are never used twice, so that verdicts about a class stay its own."""

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._numbers = count()
        self._fixed_numbers: dict[Hashable, int] = {}

    def of(self, pod: Pod, before: Task | None) -> PodClass:
        """The pod's class; that of the task it had `before`, if what makes a class didn't change.

        Raises InvalidQuantity for a request that is none.
        """
        if before is not None and _alike(before.pod.spec, pod.spec):
            return before.pod_class
        spec = pod.spec
        amounts = pod_request(spec)
        ports = tuple(sorted({port for container in spec.containers for port in _host_ports(container)}))
        tolerations = tuple(msgspec.structs.replace(each, tolerationSeconds=None) for each in spec.tolerations)
        fixed = (
            tuple(sorted(spec.nodeSelector.items())),
            msgspec.json.encode(spec.affinity) if spec.affinity else b"",
            msgspec.json.encode(tolerations) if tolerations else b"",
        )
        signature = (tuple(sorted(amounts.items())), fixed, ports)
        known = self._classes.get(signature)
        if known is None:
            self._axis.learn(amounts)
            vector = self._axis.vector(amounts)
            known = PodClass(
                next(self._numbers), vector, dict(spec.nodeSelector), spec.affinity, tolerations, ports,
                fixed_index=self._fixed_numbers.setdefault(fixed, len(self._fixed_numbers)),
            )  # fmt: skip
            self._classes[signature] = known
        return known


def _alike(before: PodSpec, after: PodSpec) -> bool:
    return before is after or (
        before.containers == after.containers
        and before.initContainers == after.initContainers
        and before.tolerations == after.tolerations
        and before.nodeSelector == after.nodeSelector
        and before.affinity == after.affinity
        and before.overhead == after.overhead
    )


def _host_ports(container: Container) -> Iterator[HostPort]:
    for port in container.ports:
        if port.hostPort:
            yield HostPort(port.hostPort, port.protocol or "TCP", port.hostIP)
