"""BindRequests: which pod each bind request is for, and which requests are dead: nobody will, or should, carry them
out.

A request counts from the moment it is decided (`assume`), before the API server has it, until it is observed or
withdrawn. Events about requests that it replaced, or about older versions, change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey
from bosket.api.quantity import integer_or_none


class BindRequests:
    """All bind requests, and which of them are dead, given the existing pods and nodes.

    `pods` and `nodes` are tables of the caller, which reports changes of them.
    """

    def __init__(self, pods: Mapping[ObjectKey, Pod], nodes: Mapping[str, Node]) -> None:
        self._pods, self._nodes = pods, nodes
        self.known: dict[ObjectKey, BindRequest] = {}  #: all of them, dead or alive, assumed or observed
        self._of_pod: dict[ObjectKey, BindRequest] = {}
        self._to_node: dict[str, set[ObjectKey]] = {}
        self._dead: dict[ObjectKey, BindRequest] = {}
        self.under_way: set[ObjectKey] = set()  #: requests that the binder has still to carry out
        # assumed request → uid of the observed request that it replaces, or ""
        self._assumed: dict[ObjectKey, str] = {}

    def assume(self, request: BindRequest) -> None:
        """Counts the request as if the API server had it."""
        before = self.known.get(request.key)
        # Kept to recognize late events about the replaced request: its uid is that of the object that the watch still
        # shows.
        former = before.metadata.uid if before is not None else ""
        self._put(request)
        self._assumed[request.key] = former

    def withdraw(self, key: ObjectKey) -> ObjectKey | None:
        """Removes an assumed request; returns its pod if the request was still only assumed."""
        if key not in self._assumed:
            return None
        request = self._take_out(key)
        return pod_of(request) if request is not None else None

    def observe(self, request: BindRequest) -> bool:
        """The watch showed the request. True when its pod may have another status now.

        Between the decision and this event, the watch may still show an older request of the same name: a late event
        must not replace the assumed one, or the pod would be bound twice.
        """
        current = self.known.get(request.key)
        if current is not None and self._is_outdated(request, current):
            return False
        pod = pod_of(request)
        before = self.node_of(pod), self.gpu_groups_of(pod)
        self._put(request)
        return (self.node_of(pod), self.gpu_groups_of(pod)) != before

    def observe_deleted(self, request: BindRequest) -> ObjectKey | None:
        """The watch showed the deletion. Returns the pod if the deleted request was the one that counted."""
        current = self.known.get(request.key)
        # The deletion of a replaced request must not free the node that the assumed one holds.
        if current is None or request.key in self._assumed or current.metadata.uid != request.metadata.uid:
            return None
        self._take_out(request.key)
        return pod_of(request)

    def _is_outdated(self, request: BindRequest, current: BindRequest) -> bool:
        if request.key in self._assumed:
            # While a request is only assumed, any event under its name is old news, unless it is our own write coming
            # back: for the same pod, under a new uid.
            another_pod = request.metadata.ownerReferences != current.metadata.ownerReferences
            return another_pod or request.metadata.uid == self._assumed[request.key]
        return _version(request) < _version(current)

    def _put(self, request: BindRequest) -> None:
        self._take_out(request.key)
        self.known[request.key] = request
        self._of_pod[pod_of(request)] = request
        self._to_node.setdefault(request.spec.selectedNode, set()).add(request.key)
        self.assess(request)

    def assess(self, request: BindRequest) -> None:
        """Recomputes whether the request is dead."""
        if self._is_dead(request):
            self._dead[request.key] = request
            self.under_way.discard(request.key)
        else:
            self._dead.pop(request.key, None)
            if request.status.phase != "Succeeded":
                self.under_way.add(request.key)

    def assess_for_pod(self, pod: ObjectKey) -> None:
        if pod in self._of_pod:
            self.assess(self._of_pod[pod])

    def assess_for_node(self, node: str) -> Collection[ObjectKey]:
        """The pods whose status may change because the node came or went."""
        if node not in self._to_node:
            return ()
        requests = [self.known[key] for key in self._to_node[node]]
        for request in requests:
            self.assess(request)
        return [pod_of(request) for request in requests]

    def node_of(self, pod: ObjectKey) -> str | None:
        """The node on which the pod will be bound; None without a live request."""
        request = self.live_for(pod)
        return request.spec.selectedNode if request is not None else None

    def live_for(self, pod: ObjectKey) -> BindRequest | None:
        """The live request for the pod."""
        request = self._of_pod.get(pod)
        return request if request is not None and request.key not in self._dead else None

    def gpu_groups_of(self, pod: ObjectKey) -> tuple[str, ...]:
        """The shared GPUs in the pod's live request; empty without one."""
        request = self._of_pod.get(pod)
        return request.spec.selectedGPUGroups if request is not None and request.key not in self._dead else ()

    def is_dead(self, key: ObjectKey) -> bool:
        """Whether the request exists and nobody will carry it out."""
        return key in self._dead

    def dead(self) -> tuple[BindRequest, ...]:
        return tuple(self._dead[key] for key in sorted(self._dead))

    def _take_out(self, key: ObjectKey) -> BindRequest | None:
        request = self.known.pop(key, None)
        if request is None:
            return None
        self._dead.pop(key, None)
        self.under_way.discard(key)
        self._assumed.pop(key, None)
        to_node = self._to_node[request.spec.selectedNode]
        to_node.discard(key)
        if not to_node:
            del self._to_node[request.spec.selectedNode]
        # Another request may be the pod's by now.
        if self._of_pod.get(pod_of(request)) is request:
            del self._of_pod[pod_of(request)]
        return request

    def _is_dead(self, request: BindRequest) -> bool:
        if request.spec.selectedNode not in self._nodes or self._is_of_former_pod(request):
            return True
        if request.status.phase != "Failed":
            return False
        limit = request.spec.backoffLimit
        return limit is None or request.status.failedAttempts >= limit

    def _is_of_former_pod(self, request: BindRequest) -> bool:
        """Whether the request's pod is gone and another pod has its name, as with StatefulSets."""
        pod = self._pods.get(pod_of(request))
        owners = [owner.uid for owner in request.metadata.ownerReferences if owner.kind == "Pod"]
        return pod is not None and bool(owners) and pod.metadata.uid not in owners


def _version(request: BindRequest) -> int:
    """Versions of one API server can be compared; what has none is older than everything."""
    return integer_or_none(request.metadata.resourceVersion) or 0


def pod_of(request: BindRequest) -> ObjectKey:
    """The key of the pod that a request is for."""
    return ObjectKey(request.metadata.namespace, request.spec.podName)
