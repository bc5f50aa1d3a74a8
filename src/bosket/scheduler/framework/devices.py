"""Which shared GPUs of a node a pod gets: existing groups, or whole GPUs that become groups.

Called by placement once a node is chosen. Plugins score the devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.gpu_group import Groups
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.task import PodClass, Task


class DeviceChoice(msgspec.Struct, frozen=True):
    """The devices chosen for one pod."""

    groups: tuple[str, ...]  #: that are there already
    opened: int  #: whole GPUs that become groups
    waits: bool  #: whether some of it is still being released

    def would_do(self, own: tuple[str, ...], groups: Groups) -> bool:
        """Whether the GPUs that the pod was evicted from are as good: a GPU that it left empty instead of opening
        another. The pod then stays where it is."""
        left = set(own) - set(self.groups)
        return (
            len(left) == self.opened
            and len(own) == len(self.groups) + self.opened
            and all(groups[name].is_going for name in left)
        )

    def names(self, session: Session, task: Task, row: NodeRow) -> tuple[str, ...]:
        """The names of all groups of the choice, including the new ones."""
        if not self.opened:
            return self.groups
        node = session.snapshot.nodes.nodes[row].metadata.name
        taken = session.nodes.shared.on(row)
        return (*self.groups, *_new_names(f"{task.uid}/{node}", self.opened, taken))


def choose_devices(session: Session, pod_class: PodClass, row: NodeRow) -> DeviceChoice | None:
    """The best devices of a node for a pod that shares GPUs; None when there are too few."""
    share, nodes = pod_class.share, session.nodes
    assert share is not None
    size, groups = nodes.shared.sizes[row], nodes.shared.on(row)
    count = share.devices
    whole = min(int(nodes.idle_at[GPU, row] + nodes.releasing_at[GPU, row]), count)
    names: Sequence[str] = nodes.shared.with_room(share, row)
    if len(names) + whole < count:
        return None
    if names and (whole or len(names) > count):
        names = _chosen(session, pod_class, row, names, whole)
    waits = not nodes.fits_idle(pod_class, row)
    if names and not waits:
        memory = share.memory_on(size)
        for name in names:
            waits = waits or not groups[name].has_room_now(memory, size)
    return DeviceChoice(tuple(names), count - len(names), waits)


def _chosen(session: Session, pod_class: PodClass, row: NodeRow, names: Sequence[str], whole: int) -> Sequence[str]:
    """The best `count` devices among the groups with room and the whole GPUs; returns the groups among them."""
    for choose in session.extensions.device_choices:
        found = choose(pod_class, row, names, whole)
        if found is not None:
            return found
    share, size, groups = pod_class.share, session.nodes.shared.sizes[row], session.nodes.shared.on(row)
    assert share is not None
    return _best(session, [(name, groups[name].used / size) for name in names], whole, share.devices)


def _best(session: Session, used: Sequence[tuple[str, float]], whole: int, count: int) -> list[str]:
    """The best devices by the part of each that is in use; returns the groups among them. Ties go by name."""
    scorers = session.extensions.gpu_scores
    if count == 1 and len(used) == 1:  # one that is shared already, or a whole one
        name, part = used[0]
        is_better = not whole or sum([each.shared(part) for each in scorers]) >= sum([each.whole for each in scorers])
        return [name] if is_better else []
    ranked = [(-sum([scorer.shared(part) for scorer in scorers]), False, name) for name, part in used]
    if whole:
        ranked += [(-sum([scorer.whole for scorer in scorers]), True, "")] * whole
    if count == 1:
        _, is_whole, name = min(ranked)
        return [] if is_whole else [name]
    return [name for _, is_whole, name in sorted(ranked)[:count] if not is_whole]


def _new_names(seed: str, count: int, taken: Groups) -> list[str]:
    """Names for new groups, derived from pod and node: repeating the decision gives the same names."""
    names: list[str] = []
    number = 0
    while len(names) < count:
        name = blake2b(f"{seed}/{number}".encode(), digest_size=16).hexdigest()
        if name not in taken:
            names.append(name)
        number += 1
    return names
