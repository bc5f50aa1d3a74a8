"""Bind requests: which pod each is for, and which of them nobody will, or should, carry out any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bosket.api.core import Node, Pod
from bosket.api.kai import BindRequest
from bosket.api.object import ObjectKey


class BindRequests:
    """All bind requests, judged by the pods and nodes that there are.

    `pods` and `nodes` are the owner's own tables; it says when one of them changed.
    """

    def __init__(self, pods: Mapping[ObjectKey, Pod], nodes: Mapping[str, Node]) -> None:
        self._pods, self._nodes = pods, nodes
        self._requests: dict[ObjectKey, BindRequest] = {}
        self._of_pod: dict[ObjectKey, BindRequest] = {}
        self._to_node: dict[str, set[ObjectKey]] = {}
        self._dead: dict[ObjectKey, BindRequest] = {}

    def put(self, request: BindRequest) -> bool:
        """True when the pod that it is for may stand differently now."""
        stood = self.node_of(pod_of(request))
        self._take_out(request.key)
        self._requests[request.key] = request
        self._of_pod[pod_of(request)] = request
        self._to_node.setdefault(request.spec.selectedNode, set()).add(request.key)
        self.judge(request)
        return self.node_of(pod_of(request)) != stood

    def drop(self, key: ObjectKey) -> ObjectKey | None:
        """The pod that the request was for, if there was one."""
        request = self._take_out(key)
        return pod_of(request) if request is not None else None

    def judge(self, request: BindRequest) -> None:
        """Decides anew whether the request is dead."""
        if self._is_dead(request):
            self._dead[request.key] = request
        else:
            self._dead.pop(request.key, None)

    def judge_for_pod(self, pod: ObjectKey) -> None:
        if pod in self._of_pod:
            self.judge(self._of_pod[pod])

    def judge_for_node(self, node: str) -> Collection[ObjectKey]:
        """The pods that may stand differently, because the node came or went."""
        requests = [self._requests[key] for key in self._to_node.get(node, ())]
        for request in requests:
            self.judge(request)
        return [pod_of(request) for request in requests]

    def node_of(self, pod: ObjectKey) -> str | None:
        """Where the pod will be bound; None when there is no live request for it."""
        request = self._of_pod.get(pod)
        return request.spec.selectedNode if request is not None and request.key not in self._dead else None

    def dead(self) -> tuple[BindRequest, ...]:
        return tuple(self._dead[key] for key in sorted(self._dead))

    def _take_out(self, key: ObjectKey) -> BindRequest | None:
        request = self._requests.pop(key, None)
        if request is None:
            return None
        self._dead.pop(key, None)
        to_node = self._to_node[request.spec.selectedNode]
        to_node.discard(key)
        if not to_node:
            del self._to_node[request.spec.selectedNode]
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
        """Whether the pod that was meant is gone and another one has its name, as with StatefulSets."""
        pod = self._pods.get(pod_of(request))
        owners = [owner.uid for owner in request.metadata.ownerReferences if owner.kind == "Pod"]
        return pod is not None and bool(owners) and pod.metadata.uid not in owners


def pod_of(request: BindRequest) -> ObjectKey:
    """The pod that a request is for."""
    return ObjectKey(request.metadata.namespace, request.spec.podName)
