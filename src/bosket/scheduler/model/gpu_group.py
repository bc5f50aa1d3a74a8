"""GpuGroup: pods that share one device of a node. The device itself is known only by the group's name.

Amounts are MiB of the device's memory. A group holds a whole GPU of its node from its first running pod until its last
one is gone; while all of its pods terminate, that GPU counts as releasing. A group with only pipelined pods takes a GPU
from the releasing ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from bosket.scheduler.model.task import ACTIVE_USED, Task, TaskStatus

# Module globals are far faster than lookups of Enum members, in code that runs for every pod.
PIPELINED, RELEASING = TaskStatus.PIPELINED, TaskStatus.RELEASING


class GpuGroup(NamedTuple):
    """The state of one shared device. Immutable."""

    used: int = 0  #: MiB of all pods, pipelined ones included
    allocated: int | None = None  #: MiB of pods that are on the device; None if there never was one
    releasing: int = 0  #: MiB of terminating pods, less what is promised of it
    holds_gpu: bool = False  #: whether a whole GPU of the node is reserved for the group
    is_going: bool = False  #: whether that GPU counts as being released

    def room(self, device_mib: int) -> int:
        """The largest memory that fits, including releasing memory; -1 when the group takes no pods.

        A group without pods, or with terminating pods only, is treated as a whole GPU instead.
        """
        allocated = self.allocated or 0
        if not self.used or allocated == self.releasing:
            return -1
        return max(device_mib - allocated + self.releasing, -1)

    def has_room_now(self, memory: int, device_mib: int) -> bool:
        """Whether so much memory is free now."""
        return self.allocated is not None and device_mib - self.allocated >= memory

    def idle_part(self, device_mib: int) -> float:
        """The free part of the device in hundredths, rounded down; 0 with only pipelined pods."""
        return 1 - _hundredths(self.allocated, device_mib) if self.allocated else 0.0

    def releasing_part(self, device_mib: int) -> float:
        """The releasing part of the device in hundredths, unless the whole GPU is releasing."""
        return _hundredths(self.releasing, device_mib) if self.releasing > 0 and self.releasing != self.used else 0.0


def _hundredths(memory: int, device_mib: int) -> float:
    return -(-memory * 100 // device_mib) / 100


class Effect(NamedTuple):
    """The change of the node's whole GPUs when a group changes."""

    idle: int = 0
    releasing: int = 0


Groups = Mapping[str, GpuGroup]
NO_GROUPS: Groups = MappingProxyType({})


NO_EFFECT = Effect()


def arrive(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """Adds a pod with this status to a group."""
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
    # Inlined: this runs for every placement.
    after = tuple.__new__(GpuGroup, (used + memory, there, releasing, holds_gpu or takes_gpu, False))
    return after, Effect(-takes_gpu, -is_going) if takes_gpu or is_going else NO_EFFECT


def leave(group: GpuGroup, memory: int, status: TaskStatus) -> tuple[GpuGroup, Effect]:
    """Removes a pod with this status from a group."""
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
    """The groups of a node's tasks, and their effect on its whole GPUs."""
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
