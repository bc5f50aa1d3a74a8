"""The lifecycle of simulated nodes: registration, cordon, failure, recovery, deletion.

In a real cluster several controllers share this. Here one reconciler, keyed by the node's name, does what people
and schedulers rely on: a simulated Node that somebody creates gets a kubelet's status and a heartbeat, taints
follow the node's readiness and `kubectl cordon`, and pods of a node that is gone are taken away, so that their
owners can replace them.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from msgspec.structs import replace

from bosket.api.coordination import Lease, LeaseSpec
from bosket.api.core import Node, Pod, Taint
from bosket.api.object import ObjectKey, ObjectMeta, OwnerReference
from bosket.api.pod_phase import has_ended
from bosket.api.time import format_micro_time, format_time
from bosket.embedded.node import (
    NODE_INDEX,
    NodeShape,
    is_simulated,
    node_index,
    ready_status,
    registered_labels,
    registered_status,
)
from bosket.embedded.pod_status import disrupted
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_LEASE_NAMESPACE: Final = "kube-node-lease"
#: Rare on purpose: nobody declares a node dead for want of a heartbeat, and thousands of nodes should cost nothing.
_HEARTBEAT_SECONDS: Final = 600.0
#: How long a node must be unknown before its pods go: a pod may be seen before its node is.
_ORPHAN_SECONDS: Final = 2.0

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
#: What a node that failed is tainted with.
FAILURE_TAINTS: Final = frozenset({_NOT_READY, _UNREACHABLE})
_OUR_TAINTS: Final = FAILURE_TAINTS | {_UNSCHEDULABLE}


class NodeLifecycle:
    """Keeps Node objects true; a `Service`. `shape` is what a node has that says nothing about its capacity."""

    name = "node-lifecycle"

    def __init__(self, environment: Environment, *, shape: NodeShape) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._shape = shape
        self._nodes = environment.informers.of(Node)
        self._pods = environment.informers.of(Pod)
        self._pods.add_index(NODE_INDEX, node_index)
        self._missing_since: dict[str, float] = {}
        self._renewed: dict[str, float] = {}  # by the node's uid
        # Addresses of nodes that users add; far from those that the cluster numbers by itself.
        self._next_index = count(1 << 19)
        self._controller: Controller[str] = Controller(
            self.name, self._reconcile, workers=2, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._nodes, lambda node: (node.metadata.name,))
        self._controller.watch(self._pods, self._unknown_node)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _unknown_node(self, pod: Pod) -> tuple[str, ...]:
        name = pod.spec.nodeName
        return (name,) if name and self._nodes.store.get(ObjectKey("", name)) is None else ()

    async def _reconcile(self, name: str) -> float | None:
        node = self._nodes.store.get(ObjectKey("", name))
        if node is None:
            return await self._remove_orphans(name)
        self._missing_since.pop(name, None)
        try:
            if is_simulated(node) and ready_status(node) is None:
                node = await self._register(node)
            node = await self._set_taints(node)
            return await self._heartbeat(node) if is_simulated(node) else None
        except NotFound:
            return None  # deleted meanwhile; the informer will say so

    async def _register(self, node: Node) -> Node:
        labels = registered_labels(node, self._shape)
        status = registered_status(
            node.metadata.name, node.status, next(self._next_index), self._shape, self._clock.now()
        )
        # The status last: it is what says that the node has registered.
        node = await self._client.modify(node, replace(node, metadata=replace(node.metadata, labels=labels)))
        return await self._client.modify(node, replace(node, status=status), subresource="status")

    async def _set_taints(self, node: Node) -> Node:
        now = format_time(self._clock.now())
        wanted = _wanted_taints(node)
        taints = [
            # Who tolerates a taint for a time needs to know since when it is there; kubectl doesn't say.
            replace(taint, timeAdded=now) if taint.effect == "NoExecute" and taint.timeAdded is None else taint
            for taint in node.spec.taints
            if taint.key not in _OUR_TAINTS or (taint.key, taint.effect) in wanted
        ]
        present = {(taint.key, taint.effect) for taint in taints}
        taints += [Taint(key=key, effect=effect, timeAdded=now) for key, effect in sorted(wanted - present)]
        if tuple(taints) == node.spec.taints:
            return node
        return await self._client.modify(node, replace(node, spec=replace(node.spec, taints=tuple(taints))))

    async def _heartbeat(self, node: Node) -> float | None:
        """Renew the node's lease if it is due, and say when it is due again; only a ready node has a heartbeat."""
        if ready_status(node) != "True":
            return None
        uid = node.metadata.uid
        now = self._clock.monotonic()
        due = self._renewed.get(uid, -_HEARTBEAT_SECONDS) + _HEARTBEAT_SECONDS
        if now < due:
            return due - now
        renew_time = format_micro_time(self._clock.now())
        try:
            await self._client.create(_lease(node, renew_time), _LEASE_NAMESPACE)
        except AlreadyExists:
            patch = {"spec": {"renewTime": renew_time}}
            await self._client.patch(Lease, node.metadata.name, patch, namespace=_LEASE_NAMESPACE)
        self._renewed[uid] = now
        return _HEARTBEAT_SECONDS

    async def _remove_orphans(self, name: str) -> float | None:
        now = self._clock.monotonic()
        orphans = self._pods.store.by_index(NODE_INDEX, name)
        if not orphans:
            self._missing_since.pop(name, None)
            return None
        remaining = self._missing_since.setdefault(name, now) + _ORPHAN_SECONDS - now
        if remaining > 0:
            return remaining
        for pod in orphans:
            try:
                if not has_ended(pod):
                    # Who counts how pods end must hear of it from us: there is no kubelet left to say so.
                    status = disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", self._clock.now())
                    failed = replace(pod, status=replace(status, phase="Failed"))
                    self._pods.store.put(await self._client.modify(pod, failed, subresource="status"))
                await self._client.delete(
                    Pod, pod.metadata.name, pod.metadata.namespace, grace_seconds=0, uid=pod.metadata.uid
                )
            except NotFound:
                continue
            except Conflict:
                # It has just changed, or another pod has its name by now: look again when the cache has seen it.
                remaining = _ORPHAN_SECONDS
        return remaining if remaining > 0 else None


def _wanted_taints(node: Node) -> set[tuple[str, str]]:
    taints: set[tuple[str, str]] = set()
    match ready_status(node):
        case "False":
            taints |= {(_NOT_READY, "NoSchedule"), (_NOT_READY, "NoExecute")}
        case "Unknown":
            taints |= {(_UNREACHABLE, "NoSchedule"), (_UNREACHABLE, "NoExecute")}
        case None:
            taints.add((_NOT_READY, "NoSchedule"))
    if node.spec.unschedulable:
        taints.add((_UNSCHEDULABLE, "NoSchedule"))
    return taints


def _lease(node: Node, renew_time: str) -> Lease:
    return Lease(
        metadata=ObjectMeta(
            name=node.metadata.name,
            namespace=_LEASE_NAMESPACE,
            ownerReferences=(
                OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid),
            ),
        ),
        spec=LeaseSpec(
            holderIdentity=node.metadata.name, leaseDurationSeconds=int(2 * _HEARTBEAT_SECONDS), renewTime=renew_time
        ),
    )
