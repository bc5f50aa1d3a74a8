"""The kubelet of every simulated node: runs the pods that are bound to them.

One object serves all nodes: one pod informer, one work queue whose timers are the pods' own (start delay, run
duration, back-off, stop delay), no task per node or pod. What happens to a pod and when is decided by
`pod_lifecycle`; this module brings it to the API server. It may be stopped and started at any time: what it needs
to know is in the pods.

A node that is not Ready has no working kubelet: its pods stay as they are until it is Ready again. A cordoned node
works as usual; keeping new pods away from it is the scheduler's part.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Node, Pod, PodStatus
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.embedded import pod_status
from bosket.embedded.admission import NodeLedger
from bosket.embedded.node import NODE_INDEX, host_address, is_ready, is_simulated, node_index
from bosket.embedded.pod_lifecycle import Remove, Wait, Write, next_step
from bosket.embedded.pod_status import Place
from bosket.embedded.simulation import Behaviour, InvalidBehaviour
from bosket.embedded.start_order import StartOrder
from bosket.kube.errors import Conflict, NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_POD_NETWORK: Final = int(IPv4Address("10.0.0.0"))
_POD_NETWORK_SIZE: Final = 1 << 24


class Kubelet:
    """Runs the pods of all simulated nodes; a `Service`."""

    name = "kubelet"

    def __init__(self, environment: Environment, *, workers: int = 4) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._events = environment.events.for_component(self.name)
        self._pods = environment.informers.of(Pod)
        self._nodes = environment.informers.of(Node)
        self._ledger = NodeLedger()
        self._addresses = AddressPool()
        self._order = StartOrder()
        # When a pod's present state began, exactly, by uid; the pod's status has whole seconds only.
        self._observed: dict[str, float] = {}
        self._stopping: set[str] = set()
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=workers, clock=self._clock, metrics=environment.metrics
        )
        self._pods.add_index(NODE_INDEX, node_index)
        self._pods.subscribe(self._pod_changed)
        self._nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        """Until cancelled."""
        # All that runs already is charged to its node before the first new pod asks for room.
        await asyncio.gather(self._pods.wait_synced(), self._nodes.wait_synced())
        await self._controller.run()

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change
        for key in self._order.changed(old, new):
            self._controller.queue.add(key)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is None or not new.spec.nodeName:
            return
        if has_ended(new):
            self._ledger.release(new)
        elif new.status.startTime is not None:
            self._ledger.charge(new)
        if new.status.podIP:
            self._addresses.taken(new.status.podIP)
        self._controller.queue.add(new.key)

    def _forget(self, pod: Pod) -> None:
        self._ledger.release(pod)
        self._observed.pop(pod.metadata.uid, None)
        self._stopping.discard(pod.metadata.uid)

    def _node_changed(self, change: Change[Node]) -> None:
        old, new = change
        if new is None or (old is not None and _serves(old) and _serves(new)):
            return
        for pod in self._pods.store.by_index(NODE_INDEX, new.metadata.name):
            self._controller.queue.add(pod.key)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        pod = self._pods.store.get(key)
        if pod is None or not pod.spec.nodeName:
            return None
        node = self._nodes.store.get(ObjectKey("", pod.spec.nodeName))
        if node is None or not _serves(node):
            return None
        try:
            return await self._bring_forward(pod, node)
        except NotFound:
            return None  # deleted meanwhile; the informer will say so

    async def _bring_forward(self, pod: Pod, node: Node) -> float | None:
        """Take step after step until the pod has to wait; how long, unless it waits for a change."""
        place = Place(host_address=host_address(node), pod_address=self._addresses.take)
        while True:
            now = self._clock.now()
            try:
                behaviour = Behaviour.of(pod.metadata.annotations)
            except InvalidBehaviour as error:
                behaviour = Behaviour()
                if _is_new(pod):
                    pod = await self._write(pod, pod_status.refused(pod, "InvalidAnnotation", str(error), now), now)
                    continue
            if _is_new(pod):
                refusal = self._ledger.admit(pod, node)
                if refusal is not None:
                    self._events.event(pod, "Warning", refusal.reason, refusal.message)
                    pod = await self._write(pod, pod_status.refused(pod, refusal.reason, refusal.message, now), now)
                    continue
            self._notice_deletion(pod, now)
            is_held = pod.status.phase != "Running" and self._order.holds(pod)
            step = next_step(pod, behaviour, place, now, self._observed.get(pod.metadata.uid), is_held=is_held)
            match step:
                case Write(status):
                    pod = await self._write(pod, status, now)
                case Remove():
                    await self._remove(pod)
                    return None
                case Wait(seconds):
                    return seconds
                case None:
                    return None

    def _notice_deletion(self, pod: Pod, now: float) -> None:
        uid = pod.metadata.uid
        if pod.metadata.deletionTimestamp is not None and uid not in self._stopping:
            self._stopping.add(uid)
            self._observed[uid] = now

    async def _write(self, pod: Pod, status: PodStatus, now: float) -> Pod:
        written = await self._client.modify(pod, replace(pod, status=status), subresource="status")
        self._observed[pod.metadata.uid] = now
        self._pods.store.put(written)
        return written

    async def _remove(self, pod: Pod) -> None:
        try:
            await self._client.delete(
                Pod, pod.metadata.name, pod.metadata.namespace, grace_seconds=0, uid=pod.metadata.uid
            )
        except Conflict:
            return  # the name belongs to another pod already


class AddressPool:
    """Pod addresses of 10.0.0.0/8: each is handed out once before any comes again."""

    def __init__(self) -> None:
        self._last = 0

    def take(self) -> str:
        self._last = self._last % (_POD_NETWORK_SIZE - 2) + 1
        return str(IPv4Address(_POD_NETWORK + self._last))

    def taken(self, address: str) -> None:
        """A pod that was there before has this address."""
        try:
            number = int(IPv4Address(address)) - _POD_NETWORK
        except ValueError:
            return
        if self._last < number < _POD_NETWORK_SIZE:
            self._last = number


def _serves(node: Node) -> bool:
    return is_simulated(node) and is_ready(node)


def _is_new(pod: Pod) -> bool:
    """Bound, but no kubelet has taken it yet."""
    return pod.status.startTime is None and not has_ended(pod) and pod.metadata.deletionTimestamp is None
