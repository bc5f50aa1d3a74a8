"""Kubelet admission of simulated nodes: what each node has allocated, and the refusal of pods that don't fit.

A real kubelet checks once more what the scheduler decided, and fails a pod that its node has no room for. So does
this one: a scheduler that overcommits a node is seen at once. The kubelet charges a pod when it admits it and
releases it when the pod has ended or is gone; pods that already ran when the kubelet started are charged without
being asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from bosket.api.core import Container, Node, Pod
from bosket.api.quantity import Quantity, to_milli

#: Amounts by resource name, in thousandths of the resource's unit.
Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node doesn't take a pod, as the pod's status will say."""

    reason: str
    message: str


class NodeLedger:
    """Who holds how much of which node."""

    def __init__(self) -> None:
        self._used: defaultdict[str, Amounts] = defaultdict(dict)
        self._charged: dict[str, tuple[str, Amounts]] = {}  # by the pod's uid: its node and what it holds there

    def admit(self, pod: Pod, node: Node) -> Refusal | None:
        """Charge the pod to the node it is bound to, unless that would be more than the node has."""
        if pod.metadata.uid in self._charged:
            return None
        requests = pod_requests(pod)
        used = self._used[node.metadata.name]
        claimed = pod.status.extendedResourceClaimStatus
        by_devices = {each.resourceName for each in claimed.requestMappings} if claimed is not None else set()
        for resource, requested in sorted(requests.items()):
            capacity = to_milli(node.status.allocatable.get(resource, 0))
            if requested and resource not in by_devices and used.get(resource, 0) + requested > capacity:
                return Refusal(
                    reason=f"OutOf{resource}",
                    message=(
                        f"Pod was rejected: node {node.metadata.name} has not enough {resource}: requested "
                        f"{_plain(requested)}, used {_plain(used.get(resource, 0))}, allocatable {_plain(capacity)}"
                    ),
                )
        self._charge(pod, requests)
        return None

    def charge(self, pod: Pod) -> None:
        """The pod holds its node's resources already."""
        if pod.metadata.uid not in self._charged:
            self._charge(pod, pod_requests(pod))

    def release(self, pod: Pod) -> None:
        """The pod holds nothing any more; no matter whether it did."""
        node, requests = self._charged.pop(pod.metadata.uid, ("", {}))
        for resource, amount in requests.items():
            self._used[node][resource] -= amount

    def used(self, node: str) -> Amounts:
        """What is given away on a node, zeros left out."""
        return {resource: amount for resource, amount in self._used[node].items() if amount}

    def _charge(self, pod: Pod, requests: Amounts) -> None:
        node = pod.spec.nodeName
        self._charged[pod.metadata.uid] = (node, requests)
        used = self._used[node]
        for resource, amount in requests.items():
            used[resource] = used.get(resource, 0) + amount


def pod_requests(pod: Pod) -> Amounts:
    """What a pod takes from its node: the larger of all its containers and its largest init step, plus its overhead.

    Sidecars (init containers that restart) run beside all that starts after them. The scheduler's own sum is not used
    here: it takes every vendor's GPUs for one resource, a node doesn't, and who checks should not copy the answer.
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.initContainers:
        asked = _container_requests(container)
        if container.restartPolicy == "Always":
            sidecars = _sum(sidecars, asked)
            asked = {}
        step = _sum(sidecars, asked)
        peak = {resource: max(peak.get(resource, 0), step.get(resource, 0)) for resource in peak.keys() | step.keys()}
    total = sidecars
    for container in pod.spec.containers:
        total = _sum(total, _container_requests(container))
    total = {resource: max(total.get(resource, 0), peak.get(resource, 0)) for resource in total.keys() | peak.keys()}
    return _sum(_sum(total, _amounts(pod.spec.overhead)), {"pods": 1000})


def _container_requests(container: Container) -> Amounts:
    """A limit without a request is a request, as the API server would have written it."""
    return _amounts({**container.resources.limits, **container.resources.requests})


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {resource: to_milli(quantity) for resource, quantity in quantities.items()}


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return {resource: left.get(resource, 0) + right.get(resource, 0) for resource in left.keys() | right.keys()}


def _plain(milli: int) -> str:
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"
