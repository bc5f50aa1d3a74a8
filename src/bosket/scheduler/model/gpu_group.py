"""Shared devices of a node. All pods of a group are on the same device, which is known by the group's name alone.

Amounts are mebibytes of the device's memory. A group holds a whole GPU of its node's from the first pod that is really
there until the last one has left; while all of them are on their way out, that GPU counts as being released. A group
that pods are only promised to takes a GPU from those that are being released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from bosket.scheduler.model.task import ACTIVE_USED, Task, TaskStatus


class GpuGroup(NamedTuple):
    """One shared device as it stands. Nothing in it changes."""

    used: int = 0  #: by everybody, those who will come included
    allocated: int | None = None  #: by those who are there; None when nobody ever was
    releasing: int = 0  #: by those who go, less what was promised of it
    holds_gpu: bool = False  #: whether a whole GPU of the node is set aside for it
    is_going: bool = False  #: whether that GPU counts as being released

    def room(self, device_mib: int) -> int:
        """The most that it takes, also of what is being released; -1 when it takes nobody.

        One that nobody uses, or that is all but gone, is a whole GPU rather than a group.
        """
        allocated = self.allocated or 0
        if not self.used or allocated == self.releasing:
            return -1
        return max(device_mib - allocated + self.releasing, -1)

    def has_room_now(self, memory: int, device_mib: int) -> bool:
        """Whether there is room on it that nobody holds."""
        return self.allocated is not None and device_mib - self.allocated >= memory

    def free_part(self, device_mib: int) -> float:
        """What is left of the device, or will be, beyond whole GPUs; in hundredths, rounded down."""
        allocated = self.allocated or 0
        free = 1 - _hundredths(allocated, device_mib) if allocated > 0 else 0.0
        if self.releasing > 0 and self.releasing != self.used:
            free += _hundredths(self.releasing, device_mib)
        return free


def _hundredths(memory: int, device_mib: int) -> float:
    return -(-memory * 100 // device_mib) / 100


class Effect(NamedTuple):
    """What happens to the node's whole GPUs when a group changes."""

    idle: int = 0
    releasing: int = 0


Groups = Mapping[str, GpuGroup]
NO_GROUPS: Groups = MappingProxyType({})


def arrive(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """A pod of this status comes to a group."""
    used = group.used + memory
    allocated = group.allocated or 0
    if status == TaskStatus.PIPELINED:
        takes_gpu = group.used == group.releasing  # a new one, or one that is all but gone
        after = group._replace(used=used, releasing=group.releasing - memory, is_going=group.is_going and not takes_gpu)
        return after, Effect(releasing=-takes_gpu)
    if status == TaskStatus.RELEASING:
        releasing = group.releasing + memory
        after = group._replace(used=used, allocated=allocated + memory, releasing=releasing)
        if used != releasing:
            return after, Effect()
        effect = Effect(idle=-(not group.holds_gpu), releasing=int(not group.is_going))
        return after._replace(holds_gpu=True, is_going=True), effect
    takes_gpu = not group.used and not group.holds_gpu
    after = group._replace(
        used=used, allocated=allocated + memory, holds_gpu=group.holds_gpu or takes_gpu, is_going=False
    )
    return after, Effect(idle=-takes_gpu, releasing=-group.is_going)


def leave(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """A pod of this status goes from a group."""
    used = group.used - memory
    if status == TaskStatus.PIPELINED:
        releasing = group.releasing + memory
        gives_back = used == releasing
        after = group._replace(used=used, releasing=releasing, is_going=group.is_going or (gives_back and used > 0))
        return after, Effect(releasing=int(gives_back))
    is_releasing = status == TaskStatus.RELEASING
    releasing = group.releasing - memory if is_releasing else group.releasing
    gives_back = not used and group.holds_gpu
    is_going = used > 0 and (group.is_going or (not is_releasing and used == releasing))
    after = GpuGroup(used, (group.allocated or 0) - memory, releasing, group.holds_gpu and not gives_back, is_going)
    return after, Effect(idle=int(gives_back), releasing=is_going - group.is_going)


def groups_of(tasks: Iterable[Task], device_mib: int) -> tuple[Groups, Effect]:
    """The shared devices of a node, by who is on it, and what they take of its whole GPUs."""
    groups: dict[str, GpuGroup] = {}
    idle = releasing = 0
    for task in tasks:
        share = task.pod_class.share
        if share is None or task.status not in ACTIVE_USED:
            continue
        memory = share.memory_on(device_mib)
        for name in task.gpu_groups:
            groups[name], effect = arrive(groups.get(name, GpuGroup()), memory, task.status)
            idle, releasing = idle + effect.idle, releasing + effect.releasing
    return groups or NO_GROUPS, Effect(idle, releasing)
