"""SharedGpus: the groups of shared GPUs of all nodes in a session, as records and as arrays over nodes.

Part of the node ledger. A change returns the groups that it overwrote; `restore` puts exactly these back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.model.gpu_group import NO_EFFECT, NO_GROUPS, Effect, GpuGroup, Groups, arrive, leave
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.node import Devices, Mask, NodeRow
from bosket.scheduler.model.task import TaskStatus

GroupsBefore = tuple[tuple[str, GpuGroup | None], ...]  #: as they were; None for those that weren't there

NEW_GROUP = GpuGroup()
#: Slots that the table of groups has at first, and grows by.
SLOTS = 8
EVERYWHERE = slice(None)


class SharedGpus:
    """Groups by node."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self.sizes = devices.sizes  #: (node,)
        self._groups: dict[NodeRow, dict[str, GpuGroup]] = {row: dict(groups) for row, groups in devices.groups.items()}
        # (slot, node): the room on each group, -1 where it takes nobody; brought up to date when asked for
        self._room: NDArray[np.int64] = np.full((0, len(devices.sizes)), -1, dtype=np.int64)
        self._outdated: set[NodeRow] = set(self._groups)
        # by row and share: the groups with room for so much; forgotten when a group of the node changes
        self._with_room: dict[NodeRow, dict[GpuShare | None, list[str]]] = {}
        self._memory: dict[GpuShare, NDArray[np.int64]] = {}
        self._possible: dict[GpuShare, Mask] = {}

    def __bool__(self) -> bool:
        """Whether any node has groups."""
        return bool(self._groups)

    def on(self, row: NodeRow) -> Groups:
        return self._groups.get(row, NO_GROUPS)

    # Changes

    def move(
        self, row: NodeRow, names: Sequence[str], memory: int, *, out: TaskStatus | None, into: TaskStatus | None
    ) -> tuple[GroupsBefore, Effect]:
        """Moves a pod on its groups from one status (`out`) to another (`into`); None for not being there."""
        if not names:  # a running pod of unknown devices: its label was removed, and it has no bind request
            return (), NO_EFFECT
        groups = self._groups.setdefault(row, {})
        before: list[tuple[str, GpuGroup | None]] = []
        idle = releasing = 0
        for name in names:
            previous = groups.get(name)
            before.append((name, previous))
            group = previous or NEW_GROUP
            if out is not None:
                group, effect = leave(group, memory, out)
                idle, releasing = idle + effect.idle, releasing + effect.releasing
            if into is not None:
                group, effect = arrive(group, memory, into)
                idle, releasing = idle + effect.idle, releasing + effect.releasing
            groups[name] = group
        self._outdated.add(row)
        self._update_with_room(row, before)
        return tuple(before), Effect(idle, releasing) if idle or releasing else NO_EFFECT

    def restore(self, row: NodeRow, before: GroupsBefore) -> None:
        if not before:
            return
        groups = self._groups[row]
        for name, group in before:
            if group is None:
                del groups[name]
            else:
                groups[name] = group
        if not groups:
            del self._groups[row]
        self._changed(row)

    def _changed(self, row: NodeRow) -> None:
        self._outdated.add(row)
        self._with_room.pop(row, None)

    def _update_with_room(self, row: NodeRow, changed: Sequence[tuple[str, GpuGroup | None]]) -> None:
        """Updates the lists of groups with room after some groups changed. Most pods leave a group's room as it was or
        take the last of it, so recomputing the lists would cost more."""
        known = self._with_room.get(row)
        if not known:
            return
        groups, size = self._groups[row], self.sizes[row]
        for share, names in known.items():
            memory = 0 if share is None else share.memory_on(size)
            for name, previous in changed:
                takes = groups[name].room(size) >= memory
                if takes == (name in names):
                    continue
                if not takes:
                    names.remove(name)
                elif previous is None:
                    names.append(name)
                else:  # its position in the order of groups is unknown
                    self._with_room.pop(row)
                    return

    # What fits

    def with_room(self, share: GpuShare | None, row: NodeRow) -> list[str]:
        """The groups of a node with room for a pod; `share` None: any room. The list changes with the groups."""
        known = self._with_room.get(row)
        if known is None:
            known = self._with_room[row] = {}
        found = known.get(share)
        if found is None:
            size = self.sizes[row]
            memory = 0 if share is None else share.memory_on(size)
            groups = self._groups.get(row, NO_GROUPS)
            # `GpuGroup.room`, inlined: this runs after every placement.
            found = known[share] = [
                name
                for name, (used, allocated, releasing, _, _) in groups.items()
                if used and (allocated or 0) != releasing and size - (allocated or 0) + releasing >= memory
            ]
        return found

    def count_fitting(self, share: GpuShare, rows: Rows = EVERYWHERE) -> NDArray[np.int64]:
        """(node,): how many groups of each node have room for a pod."""
        room = self._rooms()
        if not len(room):
            return self._none()[rows]
        return np.asarray((room[:, rows] >= self.memory(share)[rows]).sum(axis=0))

    def have_room(self, share: GpuShare | None, rows: Rows = EVERYWHERE) -> Mask:
        """(node,): whether any group of each node has room for a pod; `share` None: any room."""
        room = self._rooms()
        if not len(room):
            return self._none()[rows] > 0
        return np.asarray((room[:, rows] >= (0 if share is None else self.memory(share)[rows])).any(axis=0))

    def memory(self, share: GpuShare) -> NDArray[np.int64]:
        """(node,): the memory that a pod takes of each of its devices."""
        found = self._memory.get(share)
        if found is None:
            by_size = {size: share.memory_on(size) for size in set(self.sizes)}
            found = self._memory[share] = np.array([by_size[size] for size in self.sizes], dtype=np.int64)
        return found

    def of_size(self, sizes: Container[int]) -> Mask:
        """(node,): whether the node's devices have one of these sizes."""
        return np.array([size in sizes for size in self.sizes], dtype=bool)

    def possible(self, share: GpuShare) -> Mask:
        """(node,): whether a device is large enough for the share."""
        found = self._possible.get(share)
        if found is None:
            found = self._possible[share] = np.asarray(self.memory(share) <= np.array(self.sizes, dtype=np.int64))
        return found

    def free_parts(self) -> NDArray[np.float64]:
        """(node,): free and releasing parts of shared devices, in GPUs."""
        return self._summed(lambda group, size: max(group.room(size), 0) / size)

    def idle_parts(self) -> NDArray[np.float64]:
        """(node,): free parts of shared devices, in GPUs."""
        return self._summed(GpuGroup.idle_part)

    def releasing_parts(self) -> NDArray[np.float64]:
        """(node,): releasing parts of shared devices, in GPUs."""
        return self._summed(GpuGroup.releasing_part)

    def _summed(self, part: Callable[[GpuGroup, int], float]) -> NDArray[np.float64]:
        result = np.zeros(len(self.sizes))
        for row, groups in self._groups.items():
            size = self.sizes[row]
            result[row] = sum(part(group, size) for group in groups.values())
        return result

    def _rooms(self) -> NDArray[np.int64]:
        if self._outdated:
            most = max((len(self.on(row)) for row in self._outdated), default=0)
            if most > len(self._room):
                more = np.full((most - len(self._room) + SLOTS, len(self.sizes)), -1, dtype=np.int64)
                self._room = np.concatenate([self._room, more])
            for row in self._outdated:
                size = self.sizes[row]
                column = [group.room(size) for group in self.on(row).values()]
                self._room[: len(column), row] = column
                self._room[len(column) :, row] = -1
            self._outdated.clear()
        return self._room

    def _none(self) -> NDArray[np.int64]:
        return np.zeros(len(self.sizes), dtype=np.int64)
