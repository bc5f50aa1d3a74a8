"""NodeRoom: free amounts and shared GPUs of nodes during a search on amounts, apart from the session's accounts.

Nodes are read when the search comes to them. The state of a node is an immutable value, so undoing a step means putting
back the former one.
"""

from __future__ import annotations

from typing import NamedTuple

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.node import Mask, NodeRow
from bosket.scheduler.model.resource import GPU, PODS
from bosket.scheduler.model.task import ClassIndex, PodClass


class NodeState(NamedTuple):
    """What a node has left, idle or releasing."""

    amounts: tuple[float, ...]  #: by resource
    rooms: tuple[int, ...]  #: MiB left on each of its shared devices, the fullest first


class NodeRoom:
    """The nodes of a session, with what a search puts on them."""

    def __init__(self, session: Session) -> None:
        self._nodes = session.nodes
        self._session = session
        self._states: dict[NodeRow, NodeState] = {}
        self._usable: dict[ClassIndex, Mask] = {}

    def usable(self, pod_class: PodClass) -> Mask:
        """(node,): whether a node could take a pod of a class, by what was free when the search began."""
        found = self._usable.get(pod_class.index)
        if found is None:
            view = self._session.views.of(pod_class)
            found = view.allowed
            if view.only_loses_room:  # otherwise pods that are placed together may satisfy each other's affinity
                view.catch_up()
                found = view.scores > float("-inf")
            self._usable[pod_class.index] = found
        return found

    def state(self, row: NodeRow) -> NodeState:
        found = self._states.get(row)
        if found is None:
            free = self._nodes.free()[:, row]
            shared = self._nodes.shared
            size = shared.sizes[row]
            rooms = sorted(room for group in shared.on(row).values() if (room := group.room(size)) > 0)
            found = self._states[row] = NodeState(tuple(free.tolist()), tuple(rooms))
        return found

    def put(self, row: NodeRow, state: NodeState) -> None:
        self._states[row] = state

    def slots(self, pod_class: PodClass, row: NodeRow, most: int) -> int:
        """How many pods of a class fit on the node, at most `most`."""
        state = self.state(row)
        slots = min(most, int(state.amounts[PODS]))
        for resource, amount in pod_class.needs:
            slots = min(slots, int(state.amounts[resource] // amount))
        if pod_class.share is None or slots <= 0:
            return max(slots, 0)
        count = 0
        while count < slots and (after := self._with(state, pod_class, row)) is not None:
            state, count = after, count + 1
        return count

    def with_pods(self, pod_class: PodClass, row: NodeRow, count: int) -> NodeState:
        """The node's state with so many more pods of a class, which fit."""
        state = self.state(row)
        if pod_class.share is not None:
            for _ in range(count):
                after = self._with(state, pod_class, row)
                assert after is not None, "the node has been found to have room for them"
                state = after
            return state
        amounts = list(state.amounts)
        for resource, amount in pod_class.holds:
            amounts[resource] -= amount * count
        return NodeState(tuple(amounts), state.rooms)

    def _with(self, state: NodeState, pod_class: PodClass, row: NodeRow) -> NodeState | None:
        """With one more pod that shares GPUs: on the fullest that take it, and on whole ones that it opens."""
        share = pod_class.share
        assert share is not None
        rooms = self._rooms_after(state, share, row)
        if rooms is None:
            return None
        amounts = list(state.amounts)
        for resource, amount in pod_class.holds:
            amounts[resource] -= amount
        amounts[GPU] -= len(rooms) - len(state.rooms)
        return NodeState(tuple(amounts), rooms)

    def _rooms_after(self, state: NodeState, share: GpuShare, row: NodeRow) -> tuple[int, ...] | None:
        size = self._nodes.shared.sizes[row]
        memory, missing = share.memory_on(size), share.devices
        if memory > size:
            return None
        rooms = list(state.rooms)
        for number, room in enumerate(state.rooms):
            if missing and room >= memory:
                rooms[number], missing = room - memory, missing - 1
        if missing > state.amounts[GPU]:
            return None
        return tuple(sorted([*rooms, *[size - memory] * missing]))
