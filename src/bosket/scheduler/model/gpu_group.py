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

# Members of an Enum are looked up far more slowly than names of a module.
PIPELINED, RELEASING = TaskStatus.PIPELINED, TaskStatus.RELEASING


class GpuGroup(NamedTuple):
    """One shared device as it stands. Nothing in it changes."""

    used: int = 0  #: by everybody, those who will come included
    allocated: int | None = None  #: by those who are there; None when nobody ever was
    releasing: int = 0  #: by those who go, less what was promised of it
    holds_gpu: bool = False  #: whether a whole GPU of the node is reserved for the group
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

    def idle_part(self, device_mib: int) -> float:
        """What is left of the device, in hundredths, rounded down; nothing where pods are only promised to be."""
        return 1 - _hundredths(self.allocated, device_mib) if self.allocated else 0.0

    def releasing_part(self, device_mib: int) -> float:
        """What will be left beyond that, unless the whole GPU will be."""
        return _hundredths(self.releasing, device_mib) if self.releasing > 0 and self.releasing != self.used else 0.0


def _hundredths(memory: int, device_mib: int) -> float:
    return -(-memory * 100 // device_mib) / 100


class Effect(NamedTuple):
    """What happens to the node's whole GPUs when a group changes."""

    idle: int = 0
    releasing: int = 0


Groups = Mapping[str, GpuGroup]
NO_GROUPS: Groups = MappingProxyType({})


NO_EFFECT = Effect()


def arrive(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """A pod of this status comes to a group."""
    used, allocated, releasing, holds_gpu, is_going = group
    if status == PIPELINED:
        takes_gpu = used == releasing  # a new one, or one that is all but gone
        after = GpuGroup(used + memory, allocated, releasing - memory, holds_gpu, is_going and not takes_gpu)
        return after, Effect(releasing=-1) if takes_gpu else NO_EFFECT
    there = (allocated or 0) + memory
    if status == RELEASING:
        if used != releasing:
            return GpuGroup(used + memory, there, releasing + memory, holds_gpu, is_going), NO_EFFECT
        after = GpuGroup(used + memory, there, releasing + memory, holds_gpu=True, is_going=True)
        return after, Effect(idle=-(not holds_gpu), releasing=int(not is_going))
    takes_gpu = not used and not holds_gpu
    # Without a call in between: this is done for every pod that is placed.
    after = tuple.__new__(GpuGroup, (used + memory, there, releasing, holds_gpu or takes_gpu, False))
    return after, Effect(-takes_gpu, -is_going) if takes_gpu or is_going else NO_EFFECT


def leave(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """A pod of this status goes from a group."""
    used, allocated, releasing, holds_gpu, was_going = group
    used -= memory
    if status == PIPELINED:
        releasing += memory
        gives_back = used == releasing
        is_going = was_going or (gives_back and used > 0)
        return GpuGroup(used, allocated, releasing, holds_gpu, is_going), Effect(releasing=int(gives_back))
    if status == RELEASING:
        releasing -= memory
        is_going = was_going and used > 0
    else:
        is_going = used > 0 and (was_going or used == releasing)
    gives_back = not used and holds_gpu
    after = GpuGroup(used, (allocated or 0) - memory, releasing, holds_gpu and not gives_back, is_going)
    return after, Effect(int(gives_back), is_going - was_going)


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
