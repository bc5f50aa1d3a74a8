"""Taint eviction: deletes pods that don't tolerate a NoExecute taint, at once or when their toleration expires.

This is what empties a node after `kubectl taint nodes … :NoExecute`, and what lets the pods of a failed node be
replaced elsewhere after a while. They are asked to go by a deletion, as a person would ask; on a node without a
working kubelet they then stay Terminating until it is back, or somebody forces them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Node, Pod, Taint, Toleration
from bosket.api.object import ObjectKey
from bosket.api.time import parse_time
from bosket.embedded.node import NODE_INDEX, node_index
from bosket.embedded.node_lifecycle import FAILURE_TAINTS
from bosket.embedded.pod_status import disrupted
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.kube.taint import tolerates
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

#: How long a pod that says nothing about it stays on a failed node, as Kubernetes has it by default.
_FAILURE_SECONDS: Final = 300.0


class TaintEviction:
    """Deletes pods that may no longer stay where they are; a `Service`."""

    name = "taint-eviction"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._pods = environment.informers.of(Pod)
        self._nodes = environment.informers.of(Node)
        self._pods.add_index(NODE_INDEX, node_index)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if self._taints(pod) else ())
        self._nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        """Until cancelled."""
        await self._nodes.wait_synced()
        await self._controller.run()

    def _node_changed(self, change: Change[Node]) -> None:
        if change.new is not None and _no_execute(change.new):
            for pod in self._pods.store.by_index(NODE_INDEX, change.new.metadata.name):
                self._controller.queue.add(pod.key)

    def _taints(self, pod: Pod) -> list[Taint]:
        node = self._nodes.store.get(ObjectKey("", pod.spec.nodeName)) if pod.spec.nodeName else None
        return _no_execute(node) if node is not None else []

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return None
        now = self._clock.now()
        until = stays_until(pod.spec.tolerations, self._taints(pod), now)
        if until is None or until > now:
            return None if until is None else until - now
        message = "Taint manager: deleting due to NoExecute taint"
        status = disrupted(pod, "DeletionByTaintManager", message, now)
        try:
            self._pods.store.put(await self._client.modify(pod, replace(pod, status=status), subresource="status"))
            await self._client.delete(Pod, key.name, key.namespace, uid=pod.metadata.uid)
        except NotFound:
            return None
        return None


def stays_until(tolerations: Iterable[Toleration], taints: Iterable[Taint], now: float) -> float | None:
    """When a pod with these tolerations must leave a node with these NoExecute taints; None: never."""
    tolerations = tuple(tolerations)
    ends = []
    for taint in taints:
        since = parse_time(taint.timeAdded) if taint.timeAdded is not None else now
        matching = [each for each in tolerations if tolerates(each, taint)]
        if matching:
            limits = [each.tolerationSeconds for each in matching if each.tolerationSeconds is not None]
            ends += [since + max(0, min(limits))] if limits else []
        elif taint.key in FAILURE_TAINTS:
            ends.append(since + _FAILURE_SECONDS)
        else:
            ends.append(now)
    return min(ends, default=None)


def _no_execute(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
