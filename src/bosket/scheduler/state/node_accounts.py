"""NodeAccounts: the nodes with the tasks on them, and what that leaves free, as a table that snapshots share.

`ClusterState` reports nodes and tasks that come and go; `table()` sums only dirty nodes again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from bosket.api.core import Node, Pod
from bosket.api.keys import APP_LABEL, RESERVATION_APP, SCALING_POD_APP
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import ENDED
from bosket.scheduler.model.device import NO_GPUS, DeviceGpus, DeviceId, PoolId
from bosket.scheduler.model.gpu_group import NO_GROUPS, groups_of
from bosket.scheduler.model.gpu_share import UNKNOWN_DEVICE_MIB, device_memory
from bosket.scheduler.model.node import Amounts2D, Devices, Mask, NodeRow, NodeTable, rows_of
from bosket.scheduler.model.resource import FIXED_NAMES, GPU, ResourceAxis, Vector, sorted_request
from bosket.scheduler.model.shared import Shared
from bosket.scheduler.model.task import ACTIVE_USED, Mig, PodClass, Task, TaskStatus, in_order
from bosket.scheduler.state.pod_classes import SHARING

RELEASING, PIPELINED = TaskStatus.RELEASING, TaskStatus.PIPELINED
#: Labels `app` of reservation pods and scaling pods.
UTILITY_APPS = frozenset({RESERVATION_APP, SCALING_POD_APP})


class NodeAccounts:
    """All nodes of this shard, with the tasks that hold resources on them."""

    def __init__(self, axis: ResourceAxis, scheduler_name: str) -> None:
        self._axis, self._scheduler_name = axis, scheduler_name
        self.nodes: dict[str, Node] = {}
        self._residents: Shared[str, tuple[Task, ...]] = Shared()
        self._amounts: dict[str, Mapping[str, int]] = {}
        self._device_gpus: dict[str, DeviceGpus] = {}
        self._on_node: dict[str, dict[ObjectKey, Task]] = defaultdict(dict)
        # By node: the requests of pods that could not be read as tasks, as far as these can be summed.
        self._unread: dict[str, dict[ObjectKey, tuple[float, ...] | None]] = defaultdict(dict)
        self._unread_on: dict[ObjectKey, str] = {}
        self._dirty: set[str] = set()
        self._counted: dict[str, tuple[tuple[Task, ...], _Count]] = {}  # dirty nodes that `count_ahead` has summed
        self._changed: set[str] = set()  # nodes that came, went or changed since the table was built
        self._table: NodeTable | None = None
        self._static_version = 0

    def put(self, node: Node, amounts: Mapping[str, int]) -> bool:
        """True when something relevant changed; heartbeats and images are not."""
        name = node.metadata.name
        self._axis.learn(amounts)
        before = self.nodes.get(name)
        self.nodes[name] = node
        if before is not None and self._amounts[name] == amounts and fixed_part(before) == fixed_part(node):
            return False
        self._amounts[name] = amounts
        self._changed.add(name)
        return True

    def drop(self, name: str) -> bool:
        """True when the node existed."""
        if self.nodes.pop(name, None) is None:
            return False
        del self._amounts[name]
        self._changed.add(name)
        return True

    def put_device_gpus(self, name: str, gpus: DeviceGpus) -> None:
        """Sets how many GPUs of the node are offered as DRA devices."""
        if self._device_gpus.get(name, NO_GPUS) != gpus:
            self._device_gpus[name] = gpus
            self._changed.add(name)

    def add(self, key: ObjectKey, task: Task) -> None:
        """Adds a task, if it holds resources of a node."""
        node = task.node
        if node and task.status in ACTIVE_USED:
            self._on_node[node][key] = task
            self._mark(node)

    def remove(self, key: ObjectKey, task: Task) -> None:
        on_node = self._on_node.get(task.node)
        if on_node is not None and on_node.pop(key, None) is not None:
            self._mark(task.node)
            if not on_node:
                del self._on_node[task.node]

    def _mark(self, node: str) -> None:
        self._dirty.add(node)
        if self._counted:
            self._counted.pop(node, None)

    def hold_unread(self, key: ObjectKey, pod: Pod) -> None:
        """Reserves the room of a running pod that could not be read as a task: its containers' requests, one GPU if it
        shares one. Where the requests can't be summed either, the node counts as full: giving the room to others would
        overcommit the node."""
        self.forget_unread(key)
        name = pod.spec.nodeName
        if not name or pod.status.phase in ENDED:
            return
        try:
            request, gpu = dict(sorted_request(pod.spec)), FIXED_NAMES[GPU]
            if not SHARING.isdisjoint(pod.metadata.annotations):
                request[gpu] = request.get(gpu) or 1
            self._axis.learn(request)
            held: tuple[float, ...] | None = self._axis.row(tuple(sorted(request.items())))
        except Exception:  # the defect that made reading fail may strike here, too
            held = None
        self._unread[name][key] = held
        self._unread_on[key] = name
        self._dirty.add(name)

    def forget_unread(self, key: ObjectKey) -> None:
        """The pod is gone or was read as a task."""
        name = self._unread_on.pop(key, None)
        if name is not None:
            del self._unread[name][key]
            if not self._unread[name]:
                del self._unread[name]
            self._dirty.add(name)

    @property
    def residents(self) -> Mapping[str, tuple[Task, ...]]:
        """By node: its tasks as of the last table, in order of their keys."""
        return self._residents.freeze()

    def on(self, name: str) -> Collection[Task]:
        """The tasks on a node, of this shard or not."""
        return self._on_node[name].values() if name in self._on_node else ()

    def is_unchanged(self, table: NodeTable) -> bool:
        """Whether `table()` would return this table."""
        return self._table is table and not self._dirty and not self._is_outdated()

    def _is_outdated(self) -> bool:
        """Whether the set of nodes or of resources changed since the table was built."""
        return self._table is None or bool(self._changed) or self._table.idle.shape[0] != len(self._axis)

    def table(self) -> NodeTable:
        if self._table is None or self._is_outdated():
            nodes, rows, allocatable, devices = self._arranged()
            idle, releasing, foreign = allocatable.copy(), np.zeros_like(allocatable), np.zeros_like(allocatable)
            devices = self._taken_over(rows, devices, idle, releasing, foreign)
        else:
            table = self._table
            if not self._dirty:
                return table
            nodes, rows, allocatable, devices = table.nodes, table.rows, table.allocatable, table.devices
            idle, releasing, foreign = table.idle.copy(), table.releasing.copy(), table.foreign.copy()
        # Every dirty node is summed from all its pods, in order of their keys. Adding and subtracting single pods would
        # be faster, but the result would depend on history in the last digit, and equal nodes would no longer tie.
        residents: dict[str, tuple[Task, ...]] = {}
        counts: dict[NodeRow, _Count] = {}
        empty: list[NodeRow] = []
        for name in self._dirty:
            on_node = self._on_node.get(name)
            if on_node:
                counted = self._counted.get(name)
                tasks = in_order(on_node.values()) if counted is None else counted[0]
                residents[name] = tasks
                self._residents.put(name, tasks)
                # A node may be gone from the table while its pods still exist.
                if name in rows:
                    if counted is None or len(counted[1].held) != len(self._axis):
                        counted = tasks, self._count(tasks)
                    counts[rows[name]] = counted[1]
            else:
                self._residents.drop(name)
                if name in rows:
                    empty.append(rows[name])
        at, size = list(counts), len(self._axis)
        idle[:, empty] = allocatable[:, empty]
        releasing[:, empty] = foreign[:, empty] = 0.0
        idle[:, at] = allocatable[:, at] - _columns(size, [count.held for count in counts.values()])
        releasing[:, at] = _columns(size, [count.going for count in counts.values()])
        foreign[:, at] = _columns(size, [count.foreign for count in counts.values()])
        groups, legacy = dict(devices.groups), set(devices.legacy_mig)
        for row in (*empty, *counts) if groups or legacy else ():
            groups.pop(row, None)
            legacy.discard(row)
        for row, count in counts.items():
            if Mig.LEGACY in map(_mig, count.classes):
                legacy.add(row)
            if any(map(_share, count.classes)):
                shared, effect = groups_of(residents[nodes[row].metadata.name], devices.sizes[row])
                if shared is not NO_GROUPS:
                    groups[row] = shared
                    idle[GPU, row] += effect.idle
                    releasing[GPU, row] += effect.releasing
            name = nodes[row].metadata.name
            gpus = self._device_gpus.get(name)
            claiming = (
                [task for task in residents.get(name, ()) if task.devices is not None] if gpus is not None else []
            )
            if gpus is not None and claiming:
                claimed, leaving = claimed_gpus(claiming, gpus)
                ours = [task for task in claiming if task.pod.spec.schedulerName == self._scheduler_name]
                foreign[GPU, row] += claimed - claimed_gpus(ours, gpus)[0]
                idle[GPU, row] -= claimed
                releasing[GPU, row] += leaving
        for name in self._dirty.intersection(self._unread) if self._unread else ():
            if name in rows:
                _take(idle[:, rows[name]], self._unread[name].values())
        self._dirty.clear()
        self._counted.clear()
        self._changed.clear()
        for array in (allocatable, idle, releasing, foreign):
            # Snapshots share these arrays with other threads; a write would be a race, so numpy refuses it.
            array.flags.writeable = False
        devices = replace(devices, groups=groups, legacy_mig=frozenset(legacy))
        self._table = NodeTable(nodes, rows, allocatable, idle, foreign, releasing, devices, self._static_version)
        return self._table

    def count_ahead(self, most: int) -> bool:
        """Sums up to `most` dirty nodes before the next table, so that `table()` takes less time. True when some may be
        left."""
        on_node, counted = self._on_node, self._counted
        ahead = list(islice((name for name in self._dirty if name in on_node and name not in counted), most))
        for name in ahead:
            tasks = in_order(on_node[name].values())
            counted[name] = tasks, self._count(tasks)
        return len(ahead) == most

    def _arranged(self) -> tuple[tuple[Node, ...], Mapping[str, NodeRow], Amounts2D, Devices]:
        """All nodes in order of their names, their rows, and their allocatable amounts."""
        names = sorted(self.nodes)
        self._static_version += 1
        allocatable = self._allocatable(names)
        if self._device_gpus:
            allocatable[GPU] += [self._device_gpus.get(name, NO_GPUS).devices for name in names]
        nodes = tuple([self.nodes[name] for name in names])
        rows = dict(zip(names, rows_of(names), strict=True))
        return nodes, rows, allocatable, _devices(nodes, allocatable[GPU] > 0)

    def _taken_over(
        self, rows: Mapping[str, NodeRow], devices: Devices, idle: Amounts2D, releasing: Amounts2D, foreign: Amounts2D
    ) -> Devices:
        """Copies the columns of unchanged nodes from the last table: in a large cluster some node comes or goes all the
        time. The other nodes become dirty."""
        before = self._table
        if before is None or before.idle.shape[0] != len(self._axis):
            self._dirty.update(self._on_node, self._unread)
            return devices
        self._dirty |= self._changed
        known_rows = before.rows
        unchanged = [name for name in rows if name in known_rows and name not in self._changed]
        same = [(rows[name], known_rows[name]) for name in unchanged]
        now, then = [row for row, _ in same], [old for _, old in same]
        for array, known in ((idle, before.idle), (releasing, before.releasing), (foreign, before.foreign)):
            array[:, now] = known[:, then]
        if not before.devices.groups and not before.devices.legacy_mig:
            return devices
        moved = {old: row for row, old in same}
        groups = {moved[row]: groups for row, groups in before.devices.groups.items() if row in moved}
        legacy = frozenset(moved[row] for row in before.devices.legacy_mig if row in moved)
        return replace(devices, groups=groups, legacy_mig=legacy)

    def _allocatable(self, names: Sequence[str]) -> Amounts2D:
        """(resource, node). Most nodes have equal amounts: each different column is computed once."""
        amounts = [self._amounts[name] for name in names]
        different = {id(each): each for each in amounts}
        places = {each: place for place, each in enumerate(different)}
        which = [places[id(each)] for each in amounts]
        made = _columns(len(self._axis), list(map(self._axis.vector, different.values())))
        return np.ascontiguousarray(made[:, which])

    def _count(self, tasks: Iterable[Task]) -> _Count:
        """Sums the tasks of one node. Counts per class are multiplied at the end, so the sum doesn't depend on the
        order."""
        size = len(self._axis)
        classes = list(map(_pod_class, tasks))
        # few classes: most pods of a node are alike
        by_class = {each: classes.count(each) for each in dict.fromkeys(classes)}
        count = _Count(by_class, [0.0] * size, [0.0] * size, [0.0] * size)
        for pod_class, pods in count.classes.items():
            for resource, amount in pod_class.holds:
                # One multiplication per class instead of additions per pod: exact counts, and independent of the order
                # of pods.
                count.held[resource] += amount * pods
        for task in tasks:
            if task.status is PIPELINED:  # holds nothing yet, but a part of the releasing amounts is promised to it
                _add(count.held, task, -1)
                _add(count.going, task, -1)
                continue
            if task.status is RELEASING:
                _add(count.going, task)
            if task.group is None and self._is_foreign(task.pod):
                _add(count.foreign, task)
        return count

    def _is_foreign(self, pod: Pod) -> bool:
        """Whether the pod belongs to another scheduler and is no reservation or scaling pod."""
        return pod.spec.schedulerName != self._scheduler_name and pod.metadata.labels.get(APP_LABEL) not in UTILITY_APPS


class _Count(NamedTuple):
    """The pods on a node; by resource: held, releasing, and held by other schedulers' pods."""

    classes: Mapping[PodClass, int]
    held: list[float]
    going: list[float]
    foreign: list[float]


def _add(amounts: list[float], task: Task, times: int = 1) -> None:
    for resource, amount in task.pod_class.holds:
        amounts[resource] += amount * times


def _take(idle: Vector, held: Iterable[tuple[float, ...] | None]) -> None:
    """Subtracts the requests of unread pods; None (unknown requests) leaves nothing free."""
    for amounts in held:
        if amounts is None:
            np.minimum(idle, 0.0, out=idle)
        else:
            idle[: len(amounts)] -= amounts


def _columns(size: int, columns: Sequence[Vector | list[float]]) -> Amounts2D:
    """An array over (resource, node) from one column per node."""
    return np.ascontiguousarray(np.array(columns, dtype=np.float64).reshape(len(columns), size).T)


_pod_class, _mig, _share = map(attrgetter, ("pod_class", "mig", "share"))


def _devices(nodes: Sequence[Node], has_gpus: Mask) -> Devices:
    found = [device_memory(node.metadata.labels) for node in nodes]
    sizes = tuple(size or UNKNOWN_DEVICE_MIB for size in found)
    known = [size for size in found if size is not None and size > UNKNOWN_DEVICE_MIB]
    if not known and has_gpus.any():
        known = [UNKNOWN_DEVICE_MIB]
    is_known = np.array([size is not None for size in found], dtype=bool)
    return Devices(sizes, is_known, {}, frozenset(), min(known, default=None), max(known, default=None))


def claimed_gpus(tasks: Iterable[Task], gpus: DeviceGpus) -> tuple[int, int]:
    """The GPUs that tasks of one node hold as DRA devices, and how many of these are being released. A device with
    several users counts once."""
    total = leaving = 0
    users: dict[DeviceId, bool] = {}  # device → whether one of its users stays
    for task in tasks:
        if task.devices is None or not gpus.devices:
            continue
        goes = task.status == TaskStatus.RELEASING
        devices = [each for each in task.devices.gpu_devices if PoolId(each.driver, each.pool) in gpus.pools]
        unknown = task.devices.gpus - len(devices)
        total += unknown
        leaving += unknown * goes
        for device in devices:
            users[device] = users.get(device, False) or not goes
    return total + len(users), leaving + sum(not stays for stays in users.values())


def fixed_part(node: Node) -> tuple[object, ...]:
    """The fields of a node on which remembered verdicts depend."""
    conditions = {(condition.type, condition.status) for condition in node.status.conditions}
    return (node.metadata.labels, node.spec.unschedulable, node.spec.taints, conditions)
