"""The accounts of a session: what is free on nodes and what queues hold, as decisions are made and undone.

Only a statement writes here. Every change gives back the values that it overwrote; putting them back restores the
account exactly, to the bit, as long as changes are undone in the opposite order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import sub

import msgspec
import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.extension import Rows
from bosket.scheduler.framework.shared_gpus import EVERYWHERE, GroupsBefore, SharedGpus
from bosket.scheduler.model.cell import Cells, cells
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.node import Mask, NodeRow, NodeTable
from bosket.scheduler.model.queue import QueueRow, QueueTree
from bosket.scheduler.model.resource import GPU, NOTHING, PODS, QueueAmounts, ResourceIndex, all_resources, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ClassIndex, PodClass, TaskStatus

#: Parts of a GPU that are added up exactly: multiples of one by this.
SMALLEST_PART = 1024.0

NodeCells = Cells[tuple[int, int]]  #: by resource and node


class DevicesBefore(msgspec.Struct, frozen=True):
    """Shared GPUs of a node, and its whole ones, before a change."""

    groups: GroupsBefore
    idle: float
    releasing: float


Column = list[float]  #: what a node had of each resource that a pod class holds


class NodeLedger:
    """Free and releasing amounts per node. `log` lists changed rows in order, so that class views can catch up."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.idle = table.idle.copy()
        self.releasing = table.releasing.copy()
        #: the same memory, indexed [resource, row], for single values: many times cheaper than through the array
        self.idle_at: NodeCells = cells(self.idle)
        self.releasing_at: NodeCells = cells(self.releasing)
        self.shared = SharedGpus(table.devices)
        self.log: list[NodeRow] = []
        #: the class of the pod that was allocated last, and how long `log` was then
        self.allocated_last: tuple[PodClass | None, int] = (None, -1)
        #: whether some node may hold more of a resource than it has; such a node takes nobody, whatever is asked for
        self.overdrawn = bool((self.idle < 0).any())
        self._asked: tuple[int, PodClass, NodeRow] | None = None
        self._fits_idle = False
        self._costs: dict[tuple[ClassIndex, int], QueueAmounts] = {}  # by class and size of devices
        self._free = self.idle + self.releasing
        self._free_seen = 0  # how much of the log it is true for
        self._sound: dict[bool, Mask] = {}  # by whether GPUs count, as of `_free_seen`
        self._unasked: dict[ClassIndex, list[ResourceIndex]] = {}  # by class

    def cost(self, pod_class: PodClass, row: NodeRow) -> QueueAmounts:
        """The amounts that a pod on this node charges to its queue; with shared GPU memory they depend on the node's
        device."""
        if pod_class.share is None:
            return pod_class.charge
        key = (pod_class.index, self.shared.sizes[row])
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = pod_class.charge_on(key[1])
        return cost

    def portion(self, pod_class: PodClass, row: NodeRow) -> float:
        """The part of each GPU that a pod on this node gets."""
        return 1.0 if pod_class.share is None else pod_class.share.portion_on(self.shared.sizes[row])

    def take(self, at: NodeCells, pod_class: PodClass, row: NodeRow) -> Column:
        """Subtracts a pod's request from `idle_at` or `releasing_at`; returns the values before."""
        before = []
        for resource, amount in pod_class.holds:
            had = at[resource, row]
            before.append(had)
            at[resource, row] = had - amount
        self.log.append(row)
        return before

    def allocate(self, pod_class: PodClass, row: NodeRow) -> Column:
        """Subtracts a pod's request from the idle amounts; returns the values before."""
        before = self.take(self.idle_at, pod_class, row)
        self.allocated_last = (pod_class, len(self.log))
        return before

    def allocate_many(self, pod_class: PodClass, row: NodeRow, most: int) -> list[Column]:
        """Subtracts the requests of up to `most` equal pods from the idle amounts while another pod fits.

        The caller guarantees that the first pod fits and that none shares GPUs. Returns the values before each pod.
        """
        idle, holds = self.idle_at, pod_class.holds
        amounts = [amount for _, amount in holds]
        free = [idle[resource, row] for resource, _ in holds]
        before = [free]
        # Subtracted one by one, not `count * amount`: the float result must equal that of single placements to the bit.
        for _ in range(min(most, self._room(pod_class, row)) - 1):
            free = list(map(sub, free, amounts))
            before.append(free)
        free = list(map(sub, free, amounts))
        for (resource, _), left in zip(holds, free, strict=True):
            idle[resource, row] = left
        self.log.append(row)
        self.allocated_last = (pod_class, len(self.log))
        return before

    def _room(self, pod_class: PodClass, row: NodeRow) -> int:
        """How many pods of a class the idle amounts have room for, at least 1. Idle resources that are promised to
        pipelined pods (negative `releasing`) don't count."""
        if self.overdrawn:
            return 1
        idle, releasing = self.idle_at, self.releasing_at
        room = idle[PODS, row] + min(releasing[PODS, row], 0.0)
        for resource, amount in pod_class.needs:
            room = min(room, (idle[resource, row] + min(releasing[resource, row], 0.0)) // amount)
        return int(room)

    def give(self, at: NodeCells, pod_class: PodClass, row: NodeRow) -> Column:
        before = []
        for resource, amount in pod_class.holds:
            had = at[resource, row]
            before.append(had)
            at[resource, row] = had + amount
        self.log.append(row)
        return before

    def release(self, pod_class: PodClass, row: NodeRow, *, is_promised: bool, sign: int = 1) -> Column:
        """Adds what a task holds to `releasing`; a negative sign reverses that. Returns the values before.

        A pipelined task holds nothing yet, but KAI treats it as if it did: its request is added to `releasing` and
        missing from `idle`. Nodes where a promise was broken then look fuller, so others go elsewhere. Followed,
        because scores depend on it.
        """
        change, opposite = (self.give, self.take) if sign > 0 else (self.take, self.give)
        column = change(self.releasing_at, pod_class, row)
        if is_promised:
            self.overdrawn = True
            change(self.releasing_at, pod_class, row)
            column += opposite(self.idle_at, pod_class, row)
        return column

    def reserve(self, row: NodeRow, amounts: Iterable[tuple[ResourceIndex, float]]) -> None:
        """Keeps amounts of a node, by resource index, for somebody who isn't there yet, till the end of the cycle."""
        for resource, amount in amounts:
            self.releasing_at[resource, row] -= amount
        self.log.append(row)

    def restore(self, at: NodeCells, pod_class: PodClass, row: NodeRow, before: Column) -> None:
        for (resource, _), had in zip(pod_class.holds, before, strict=True):
            at[resource, row] = had
        self.log.append(row)

    def move_on_devices(
        self, share: GpuShare, row: NodeRow, names: Sequence[str], *, out: TaskStatus | None, into: TaskStatus | None
    ) -> DevicesBefore:
        """A pod leaves shared GPUs with one status, and comes to them with another; returns what was there."""
        idle, releasing = self.idle_at[GPU, row], self.releasing_at[GPU, row]
        groups, effect = self.shared.move(row, names, share.memory_on(self.shared.sizes[row]), out=out, into=into)
        self.idle_at[GPU, row] = idle + effect.idle
        self.releasing_at[GPU, row] = releasing + effect.releasing
        return DevicesBefore(groups, idle, releasing)

    def restore_devices(self, row: NodeRow, before: DevicesBefore) -> None:
        self.shared.restore(row, before.groups)
        self.idle_at[GPU, row] = before.idle
        self.releasing_at[GPU, row] = before.releasing

    def free_gpus(self) -> NDArray[np.float64]:
        """(node,): GPUs that are idle or being released, parts of shared ones included."""
        free: NDArray[np.float64] = self.idle[GPU] + self.releasing[GPU]
        return free + self.shared.free_parts() if self.shared else free

    def free(self) -> NDArray[np.float64]:
        """(resource, node): what is idle or being released, as things stand; not to be written to."""
        if self._free_seen != len(self.log):
            np.add(self.idle, self.releasing, out=self._free)
            self._free_seen = len(self.log)
            self._sound.clear()
        return self._free

    def _sound_nodes(self, *, gpus: bool) -> Mask:
        """(node,): True where no resource is overdrawn; `gpus=False` ignores GPUs."""
        free = self.free()
        found = self._sound.get(gpus)
        if found is None:
            amounts = free if gpus else np.delete(free, GPU, axis=0)
            found = self._sound[gpus] = np.asarray((amounts >= 0).all(axis=0))
        return found

    def _not_asked_for(self, pod_class: PodClass) -> list[ResourceIndex]:
        """The indexes of resources that a class doesn't ask for. For shared GPUs, only these can overdraw the node."""
        found = self._unasked.get(pod_class.index)
        if found is None:
            asked = {PODS, *(resource for resource, _ in pod_class.needs)}
            if pod_class.share is not None:
                asked.add(GPU)
            found = [resource for resource in all_resources(self.idle) if resource not in asked]
            self._unasked[pod_class.index] = found
        return found

    def fits_idle(self, pod_class: PodClass, row: NodeRow) -> bool:
        """Whether a pod fits into the idle amounts. The latest answer is kept, because placement repeats the scorer's
        question."""
        asked = (len(self.log), pod_class, row)
        if asked != self._asked:
            self._fits_idle = self._find_out_fit(pod_class, row)
            self._asked = asked
        return self._fits_idle

    def _find_out_fit(self, pod_class: PodClass, row: NodeRow) -> bool:
        at = self.idle_at
        for resource, amount in pod_class.needs:
            if at[resource, row] < amount:
                return False
        if pod_class.share is not None and not self._devices_suffice(pod_class.share, row, at[GPU, row]):
            return False
        if self.overdrawn:
            for resource in self._not_asked_for(pod_class):
                if at[resource, row] < 0:
                    return False
        return at[PODS, row] >= 1

    def fit_idle(self, pod_class: PodClass, rows: Rows) -> Mask:
        """The same as `fits_idle` for rows."""
        idle = self.idle
        fits: Mask = idle[PODS, rows] >= 1
        for resource, amount in pod_class.needs:
            fits &= idle[resource, rows] >= amount
        if pod_class.share is not None:
            fits &= self._devices_suffice_on(pod_class.share, idle[GPU, rows], rows)
        if self.overdrawn:
            for resource in self._not_asked_for(pod_class):
                fits &= idle[resource, rows] >= 0
        return fits

    def fits(self, pod_class: PodClass, row: NodeRow) -> bool:
        """Whether a pod fits into the idle and releasing amounts. Also prepares the answer of `fits_idle`, which is
        usually asked next."""
        idle, releasing = self.idle_at, self.releasing_at
        now = True
        for resource, amount in pod_class.needs:
            free = idle[resource, row]
            if free + releasing[resource, row] < amount:
                return False
            now = now and free >= amount
        if pod_class.share is not None:
            free = idle[GPU, row]
            if not self._devices_suffice(pod_class.share, row, free + releasing[GPU, row]):
                return False
            now = now and self._devices_suffice(pod_class.share, row, free)
        free = idle[PODS, row]
        if self.overdrawn:
            for resource in self._not_asked_for(pod_class):
                if idle[resource, row] + releasing[resource, row] < 0:
                    return False
        else:
            self._asked, self._fits_idle = (len(self.log), pod_class, row), now and free >= 1
        return free + releasing[PODS, row] >= 1

    def fit(self, pod_class: PodClass, rows: Rows = EVERYWHERE) -> Mask:
        """The same as `fits` for rows."""
        # `free()` is cached: many classes ask for all nodes between two changes.
        free = self.free() if rows is EVERYWHERE else self.idle[:, rows] + self.releasing[:, rows]
        fits: Mask = free[PODS] >= 1
        for resource, amount in pod_class.needs:
            fits &= free[resource] >= amount
        if pod_class.share is not None:
            fits &= self._devices_suffice_on(pod_class.share, free[GPU], rows)
        if self.overdrawn and rows is EVERYWHERE:
            # Resources in `needs` were checked above, so checking all resources adds only those not asked for.
            fits &= self._sound_nodes(gpus=pod_class.share is None)
        elif self.overdrawn:
            for resource in self._not_asked_for(pod_class):
                fits &= free[resource] >= 0
        return fits

    def _devices_suffice(self, share: GpuShare, row: NodeRow, whole: float) -> bool:
        """Whether the groups with room and the whole GPUs of a node are as many as the devices that a pod asks for."""
        if share.memory_mib > self.shared.sizes[row]:
            return False
        return whole >= share.devices or len(self.shared.with_room(share, row)) + math.floor(whole) >= share.devices

    def _devices_suffice_on(self, share: GpuShare, whole: NDArray[np.float64], rows: Rows) -> Mask:
        """The same as `_devices_suffice` for rows; `whole`: GPUs of these rows that no pod shares."""
        there = np.floor(whole) + self.shared.count_fitting(share, rows)
        return np.asarray((there >= share.devices) & self.shared.possible(share)[rows])


QueueAccounts = list[QueueAmounts]  #: amounts of a queue and its ancestors before a change, from the queue upwards


def is_exact(amounts: QueueAmounts) -> bool:
    """Whether float sums of such amounts are exact in any order: whole numbers, and GPU parts of a power of two."""
    gpus, millicores, memory = amounts
    return not (gpus * SMALLEST_PART % 1 or millicores % 1 or memory % 1)


class QueueLedger:
    """The amounts that each queue holds, including its descendants.

    Accounts are tuples that are replaced, never changed in place. A caller that kept one sees by identity (`is`) that
    nothing happened to the queue; `Turns` and the solver's caches rely on that.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.tree: QueueTree = snapshot.queues
        count = len(self.tree.queues)
        self.allocated: list[QueueAmounts] = [NOTHING] * count
        self.non_preemptible: list[QueueAmounts] = [NOTHING] * count
        #: by queue row: the fair share; set by the plugin `proportion`
        self.fair_share: Sequence[QueueAmounts] = [(math.inf, math.inf, math.inf)] * count
        for name, use in sorted(snapshot.use.items()):
            row = self.tree.rows.get(name)
            if row is None or use.allocated == NOTHING:
                continue
            for step in self.tree.paths[row]:
                self.allocated[step] = plus(self.allocated[step], use.allocated)
                self.non_preemptible[step] = plus(self.non_preemptible[step], use.non_preemptible)

    def credit(self, row: QueueRow, amount: QueueAmounts, *, preemptible: bool) -> QueueAccounts:
        """Subtracts an amount from a queue and its ancestors; returns their accounts before."""
        return self.charge(row, (-amount[0], -amount[1], -amount[2]), preemptible=preemptible)

    def charge(self, row: QueueRow, amount: QueueAmounts, *, preemptible: bool) -> QueueAccounts:
        """Adds an amount to a queue and its ancestors; returns their accounts before."""
        gpus, millicores, memory = amount
        before: QueueAccounts = []
        for accounts in (self.allocated,) if preemptible else (self.allocated, self.non_preemptible):
            for step in self.tree.paths[row]:
                had = accounts[step]
                before.append(had)
                accounts[step] = (had[0] + gpus, had[1] + millicores, had[2] + memory)
        return before

    def change_together(
        self, row: QueueRow, amounts: Sequence[QueueAmounts], *, preemptible: bool, sign: int, total: QueueAmounts
    ) -> None:
        """Charges (`sign` > 0) or credits the amounts of equal pods: in one step where that gives the same floats, else
        one by one.

        One step is exact only if the amounts *and* the accounts that they are added to are.
        """
        if len(amounts) > 1 and self._are_exact(row, preemptible=preemptible):
            amounts = (total,)
        change = self.charge if sign > 0 else self.credit
        for each in amounts:
            change(row, each, preemptible=preemptible)

    def _are_exact(self, row: QueueRow, *, preemptible: bool) -> bool:
        """Whether the accounts of a queue and its ancestors are exact (`is_exact`)."""
        for accounts in (self.allocated,) if preemptible else (self.allocated, self.non_preemptible):
            for step in self.tree.paths[row]:
                if not is_exact(accounts[step]):
                    return False
        return True

    def credit_all(self, amounts: Iterable[tuple[QueueRow, QueueAmounts]]) -> bool:
        """Credits queues with what preemptible jobs held, all in one pass; False, with nothing changed, where the order
        of sums would matter.

        `amounts`: by queue row, each exact.
        """
        paths, totals = self.tree.paths, dict[QueueRow, QueueAmounts]()
        for row, (gpus, millicores, memory) in amounts:
            for step in paths[row]:
                total = totals.get(step)
                if total is None:
                    totals[step] = (gpus, millicores, memory)
                else:
                    totals[step] = (total[0] + gpus, total[1] + millicores, total[2] + memory)
        accounts = self.allocated
        if not all(is_exact(accounts[step]) for step in totals):
            return False
        for step, (gpus, millicores, memory) in totals.items():
            had = accounts[step]
            accounts[step] = (had[0] - gpus, had[1] - millicores, had[2] - memory)
        return True

    def charge_many(self, row: QueueRow, amount: QueueAmounts, times: int, *, preemptible: bool) -> list[QueueAccounts]:
        """`charge`, `times` times; returns the accounts before each charge."""
        gpus, millicores, memory = amount
        path = self.tree.paths[row]
        columns: list[QueueAccounts] = []
        for accounts in (self.allocated,) if preemptible else (self.allocated, self.non_preemptible):
            for step in path:
                had = accounts[step]
                column = [had]
                for _ in range(times):
                    had = (had[0] + gpus, had[1] + millicores, had[2] + memory)
                    column.append(had)
                accounts[step] = column.pop()
                columns.append(column)
        return list(map(list, zip(*columns, strict=True)))

    def restore(self, row: QueueRow, before: QueueAccounts) -> None:
        """Puts back accounts that `charge` or `credit` returned."""
        path = self.tree.paths[row]
        for step, had in zip(path, before, strict=False):
            self.allocated[step] = had
        for step, had in zip(path, before[len(path) :], strict=False):
            self.non_preemptible[step] = had
