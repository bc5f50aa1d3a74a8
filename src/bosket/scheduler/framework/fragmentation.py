"""FreeGpus: how much of the free GPUs pods of a mix could use, and how much of that a placement would make unusable.

A free part of a GPU is fragmented for a shape of pods that can't use it: too little of the GPU is free, or too little
CPU or memory of its node, or the node refuses the shape. A node is scored by the growth of the expected fragmentation
over the mix ("Beware of Fragmentation", USENIX ATC 2023). That measure doesn't distinguish a node with CPU for one more
pod from a node with CPU for eight; so a part of a GPU counts `LIMITED` less for a shape if CPU or memory would be used
up before pods of that shape reach it. On the openb trace this allocates 0.3 to 0.7 percent points more of all GPUs.

Amounts of GPUs are in devices. Everything is kept per node: a placement changes one node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.ledger import NodeLedger
from bosket.scheduler.model.cell import Cells, cells
from bosket.scheduler.model.gpu_share import GpuShare
from bosket.scheduler.model.node import Mask, NodeRow, rows_in
from bosket.scheduler.model.pod_mix import PodMix, PodShape
from bosket.scheduler.model.resource import CPU, GPU, MEMORY
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import PodClass

Values = NDArray[np.float64]
Places = NDArray[np.intp]

#: The discount of a part of a GPU that a shape reaches only after CPU or memory of the node is used up.
LIMITED = 0.2
#: Free parts of shared devices are counted in units of 1/PARTS, like requested fractions.
PARTS = 100
#: Tolerance, in parts, of sums that aren't whole MiB.
_SLACK = 0.01
#: The initial number of slots for shared devices of a node.
_SLOTS = 8
#: For so many nodes at once what is compared with each of them lies ready.
_TILED = 1024


class FreeGpus:
    """The free and releasing GPUs of all nodes, as pods of a mix could use them."""

    def __init__(self, snapshot: Snapshot, ledger: NodeLedger, mix: PodMix) -> None:
        shapes, table = mix.shapes, snapshot.nodes
        self._ledger, self._sizes = ledger, ledger.shared.sizes
        numbers = {size: number for number, size in enumerate(sorted(set(self._sizes)))}
        #: (node,): which of the sizes of devices it has
        self._numbers = [numbers[size] for size in self._sizes]
        self._size_of: Places = np.array(self._numbers, dtype=np.intp)
        self.most_gpus = int(table.allocatable[GPU].max(initial=0.0))  #: of a node
        # All of these are (size, ..., shape).
        of_size = [_OfSize.of(shapes, size, self.most_gpus) for size in numbers]
        self._of_whole = np.array([each.of_whole for each in of_size])
        self._of_part = np.array([each.of_part for each in of_size])
        asked = np.array([each.asked for each in of_size])
        if len(asked) and (asked == asked[0]).all():
            asked = asked[:1]  # nobody asks for an amount of memory
        # GPUs that pods get for each unit of CPU and memory. Who asks for none of it gets as many as there are.
        self._by_cpu = asked / np.array([max(shape.cpu, 1e-6) for shape in shapes])
        self._by_memory = asked / np.array([max(shape.memory, 1e-6) for shape in shapes])
        # As many rows as there may be nodes: operations on arrays of equal shapes take half of the time.
        self._least = asked * (1 - 1e-9)
        self._least_tiled = np.repeat(self._least[:1], _TILED, axis=0)
        weights, self._family = _weights(snapshot, mix)
        self._weights = weights * (1 - LIMITED)
        self.parts = np.array(mix.parts, dtype=np.float64)  #: (shape,): of the mix
        self._taken: dict[GpuShare | int, Values] = {}
        self._asked_parts: dict[GpuShare, Places] = {}
        count = len(table)
        #: (node, slot): what is free of shared devices that take somebody, in parts, equal amounts once; in the last
        #: slot the number of whole GPUs, plus `PARTS`; -1 for none
        self._codes = np.full((count, _SLOTS + 1), -1, dtype=np.intp)
        self.free = np.zeros(count)  #: (node,): parts of shared devices included
        self.usable = np.zeros((count, len(shapes)))  #: (node, shape): of what is free, if CPU and memory didn't count
        self._worth = np.zeros(count)  #: (node,): of what is free, as expected over the mix
        self._worth_at: Cells[int] = cells(self._worth)
        self._stale: set[NodeRow] = set()  # of which that is to be found out
        self._seen = len(ledger.log)
        whole = np.maximum(ledger.free()[GPU], 0.0).astype(np.intp)
        self._codes[:, -1] = np.where(whole > 0, PARTS + whole, -1)
        self.free[:] = whole
        if count:
            self.usable[:] = self._of_whole[self._size_of, whole]
        self._stale.update(rows_in(whole))
        for row in ledger.table.all_rows():
            if ledger.shared.on(row):
                self._count(row)
        self._renew_worth()

    # What is free

    def catch_up(self) -> None:
        """Recounts changed nodes."""
        log = self._ledger.log
        if self._seen != len(log):
            for row in set(log[self._seen :]):
                self._count(row)
            self._seen = len(log)

    def _count(self, row: NodeRow) -> None:
        ledger, codes, number, size = self._ledger, self._codes, self._numbers[row], self._sizes[row]
        whole = max(int(ledger.idle_at[GPU, row] + ledger.releasing_at[GPU, row]), 0)
        parts = []
        for group in ledger.shared.on(row).values():
            room = group.room(size)
            if room > 0 and (part := _parts(room, size)):
                parts.append(part)
        distinct = set(parts)
        if len(distinct) >= codes.shape[1]:
            more = np.full((len(codes), len(distinct) - codes.shape[1] + _SLOTS), -1, dtype=np.intp)
            codes = self._codes = np.concatenate([more, codes], axis=1)
        at = codes[row]
        at.fill(-1)
        if distinct:
            at[: len(distinct)] = list(distinct)
        if whole:
            at[-1] = PARTS + whole
        self.free[row] = whole + sum(parts) / PARTS
        if not whole and not parts:
            self.usable[row] = 0.0
            self._worth_at[row] = 0.0
            self._stale.discard(row)
            return
        usable = self._of_whole[number, whole]
        for part in parts:
            usable = usable + self._of_part[number, part]
        self.usable[row] = usable
        self._stale.add(row)

    def _renew_worth(self) -> None:
        none = np.empty(0, dtype=np.intp)
        self._left(none, np.empty((2, 0)), self.usable[:0])

    def _left(self, rows: Places, besides: Values, usable: Values) -> Values:
        """`_expected` of these, and of nodes whose worth is to be found out: once for both costs half as much."""
        if not self._stale:
            return self._expected(rows, besides, usable)
        stale, count, free = np.fromiter(self._stale, np.intp, len(self._stale)), len(rows), self._ledger.free()
        self._stale.clear()
        expected = self._expected(
            np.concatenate([rows, stale]),
            np.concatenate([besides, free[: MEMORY + 1].take(stale, axis=1)], axis=1),
            np.concatenate([usable, self.usable.take(stale, axis=0)]),
        )
        self._worth[stale] = expected[count:]
        return expected[:count]

    def usable_now(self) -> Values:
        """(node, shape): the free GPUs that at least one more pod of the shape could use."""
        self.catch_up()
        free, size = self._ledger.free(), self._size_of if len(self._least) > 1 else np.zeros_like(self._size_of)
        fed = np.minimum(self._by_cpu[size] * free[CPU][:, None], self._by_memory[size] * free[MEMORY][:, None])
        found: Values = self.usable * (fed >= self._least[size]) * (self._weights[self._family] > 0)
        return found

    def rooms(self, row: NodeRow, names: Sequence[str]) -> list[int]:
        """The free MiB of these shared devices; -1 for one that takes no pods."""
        size, groups = self._sizes[row], self._ledger.shared.on(row)
        return [groups[name].room(size) for name in names]

    def _expected(self, rows: Places, besides: Values, usable: Values) -> Values:
        """(node,): usable free GPUs, expected over the mix. `besides`: (resource, node), free CPU and memory."""
        cpu, memory = besides
        if len(self._least) == 1:
            # An outer product has no sums, so the floats are the same for any number of rows.
            fed = np.dot(cpu[:, np.newaxis], self._by_cpu)
            np.minimum(fed, np.dot(memory[:, np.newaxis], self._by_memory), out=fed)
            some = fed >= (self._least if len(fed) > _TILED else self._least_tiled[: len(fed)])
        else:
            size = self._size_of[rows]
            fed = self._by_cpu[size] * cpu[:, np.newaxis]
            np.minimum(fed, self._by_memory[size] * memory[:, np.newaxis], out=fed)
            some = fed >= self._least[size]
        np.minimum(fed, usable, out=fed)
        fed *= LIMITED / (1 - LIMITED)
        fed += usable
        fed *= some
        # Not a matrix product: BLAS sums a row differently for different numbers of rows, and scores are compared for
        # equality.
        weights = self._weights[0] if len(self._weights) == 1 else self._weights[self._family[rows]]
        return np.asarray(np.vecdot(fed, weights))

    # What a placement would change

    def growth(self, pod_class: PodClass, rows: Places) -> Values:
        """(node,): the growth of the expected fragmentation if a pod of the class is placed there, on the best devices.
        Undefined for nodes where it doesn't fit."""
        self.catch_up()
        free, amounts, share = self._ledger.free(), pod_class.amounts, pod_class.share
        if share is not None and share.devices > 1:
            return np.array([self._growth_on_several(pod_class, row) for row in rows.tolist()])
        besides = free[: MEMORY + 1].take(rows, axis=1)
        besides[CPU] -= amounts[CPU]
        besides[MEMORY] -= amounts[MEMORY]
        usable: Values
        if share is None:
            usable, gpus = self.usable.take(rows, axis=0), int(amounts[GPU])
            if gpus:
                codes = np.maximum(self._codes[:, -1].take(rows), PARTS)
                usable += self._changes(gpus, rows, codes)
            left = self._left(rows, besides, usable)
            worth = self._worth.take(rows)
            worth -= left
            worth -= gpus
            return worth
        asked = self._parts_of(share)
        least = asked.take(self._size_of.take(rows)) if len(asked) > 1 else asked
        codes = self._codes.take(rows, axis=0)
        (flat,) = (codes >= least[:, np.newaxis]).ravel().nonzero()
        at = flat // codes.shape[1]
        there = rows.take(at)
        usable = self.usable.take(there, axis=0)
        usable += self._changes(share, there, codes.ravel().take(flat))
        left = self._left(there, besides.take(at, axis=1), usable)
        worth = self._worth.take(rows)
        best = np.full(len(rows), -1.0)
        np.maximum.at(best, at, left)
        worth -= best
        worth -= least / PARTS
        return worth

    def _changes(self, asked: GpuShare | int, rows: Places, codes: Places) -> Values:
        """(node, shape): `_change` for what these nodes have."""
        change = self._change(asked)
        found: Values = change[0].take(codes, axis=0) if len(change) == 1 else change[self._size_of.take(rows), codes]
        return found

    def device_worths(self, pod_class: PodClass, row: NodeRow, names: Sequence[str], whole: int) -> list[float]:
        """The usable part of the node's free GPUs, expected over the mix, after a pod took its part of one of these
        shared devices; then the same for each whole GPU."""
        self.catch_up()
        share = pod_class.share
        assert share is not None
        size = self._size_of[row]
        asked = int(self._parts_of(share)[size])
        codes = [max(_parts(room, self._sizes[row]), asked) for room in self.rooms(row, names)]
        if whole:
            codes.append(max(int(self._codes[row, -1]), PARTS + 1))
        usable = self.usable[row] + self._change(share)[size, codes]
        worths = self._after(pod_class, row, usable)
        return worths + worths[-1:] * (whole - 1)

    def _growth_on_several(self, pod_class: PodClass, row: NodeRow) -> float:
        """The growth where a pod shares several devices: the sum of the changes of each device alone."""
        share = pod_class.share
        assert share is not None
        names, whole = self._ledger.shared.with_room(share, row), max(int(self._codes[row, -1]) - PARTS, 0)
        if len(names) + whole < share.devices:
            return 0.0
        worths = sorted(self.device_worths(pod_class, row, names, whole), reverse=True)
        (before,) = self._after(pod_class, row, self.usable[[row]])
        spoiled = sum(before - worth for worth in worths[: share.devices])
        self._renew_worth()
        return self._worth_at[row] - before + spoiled - share.gpus_on(self._sizes[row])

    def _after(self, pod_class: PodClass, row: NodeRow, usable: Values) -> list[float]:
        """What is worth so much without a look at CPU and memory, once a pod of the class took its own of these."""
        rows = np.full(len(usable), row)
        besides = self._ledger.free()[: MEMORY + 1].take(rows, axis=1)
        besides[CPU] -= pod_class.amounts[CPU]
        besides[MEMORY] -= pod_class.amounts[MEMORY]
        found: list[float] = self._expected(rows, besides, usable).tolist()
        return found

    def _parts_of(self, share: GpuShare) -> Places:
        """(size of devices,): what is taken of each device."""
        found = self._asked_parts.get(share)
        if found is None:
            asked = [_parts_asked(share, size) for size in sorted(set(self._sizes))]
            found = self._asked_parts[share] = np.array(asked, dtype=np.intp)
        return found

    def _change(self, asked: GpuShare | int) -> Values:
        """(size of devices, code, shape): how `usable` changes when so many GPUs, or such a part of one, are taken from
        what a code stands for."""
        found = self._taken.get(asked)
        if found is None:
            sizes, shapes = len(self._of_part), self.usable.shape[1]
            found = self._taken[asked] = np.zeros((sizes, PARTS + self.most_gpus + 1, shapes))
            whole = self._of_whole
            if isinstance(asked, int):
                if asked <= self.most_gpus:
                    found[:, PARTS + asked :] = whole[:, : self.most_gpus + 1 - asked] - whole[:, asked:]
                return found
            for size, parts in enumerate(self._parts_of(asked).tolist()):
                of_part = self._of_part[size]
                found[size, parts : PARTS + 1] = of_part[: PARTS + 1 - parts] - of_part[parts:]
                found[size, PARTS + 1 :] = whole[size, :-1] - whole[size, 1:] + of_part[PARTS - parts]
        return found


class _OfSize:
    """What is usable of devices of one size."""

    def __init__(self, of_whole: Values, of_part: Values, asked: Values) -> None:
        self.of_whole = of_whole  #: (number of whole free ones, shape)
        self.of_part = of_part  #: (free parts of one that is shared, shape)
        self.asked = asked  #: (shape,): what a pod asks for, in devices

    @classmethod
    def of(cls, shapes: Sequence[PodShape], size: int, most: int) -> _OfSize:
        never = float(max(most, PARTS) + 1)
        whole, part, asked = [], [], []
        for shape in shapes:
            share = shape.share
            if share is None:
                whole.append(shape.gpus)
                part.append(never)
                asked.append(shape.gpus)
                continue
            parts = max(_parts_asked(share, size), 1)
            possible = share.is_possible_on(size)
            whole.append(1.0 if possible else never)
            part.append(float(parts) if possible else never)
            asked.append(share.devices * parts / PARTS)
        counts = np.arange(most + 1, dtype=np.float64)[:, np.newaxis]
        parts_left = np.arange(PARTS + 1, dtype=np.float64)[:, np.newaxis]
        return cls(
            np.where(counts >= np.array(whole), counts, 0.0),
            np.where(parts_left >= np.array(part), parts_left / PARTS, 0.0),
            np.array(asked, dtype=np.float64),
        )


def _parts(room: int, size: int) -> int:
    return min(int(PARTS * room / size + _SLACK), PARTS)


def _parts_asked(share: GpuShare, size: int) -> int:
    return min(int(np.ceil(PARTS * share.memory_on(size) / size - _SLACK)), PARTS)


def _weights(snapshot: Snapshot, mix: PodMix) -> tuple[Values, Places]:
    """(family, shape): the part of each shape in the mix where it may use nodes of the family, otherwise 0; and of
    which family each node is."""
    table = snapshot.nodes
    if not mix.shapes or not len(table):
        return np.zeros((1, len(mix.shapes))), np.zeros(len(table), dtype=np.intp)
    allowed: dict[object, Mask] = {}
    for shape in mix.shapes:
        wanted = shape.nodes_wanted
        if wanted not in allowed:

            def ask(test: PodShape = shape) -> Mask:
                return np.array(list(map(test.node_test(), table.nodes)), dtype=bool)

            allowed[wanted] = snapshot.memory.recall(table.static_version, "pod shape", wanted, ask)
    column_of = {wanted: column for column, wanted in enumerate(allowed)}
    families, family = np.unique(np.stack(list(allowed.values()), axis=1), axis=0, return_inverse=True)
    may_use = families[:, [column_of[shape.nodes_wanted] for shape in mix.shapes]]
    return np.where(may_use, np.array(mix.parts), 0.0), family.reshape(-1).astype(np.intp)
