"""The strategy `fragmentation` of the plugin `nodeplacement`: pods go where they waste the least of what is free.

A node's score falls with the growth of the expected fragmentation (`framework.fragmentation`). Equal growth is
frequent; then the fuller node wins, so that empty ones stay whole, and for pods without GPUs the node that the CPU
strategy prefers. Of a node's devices a pod gets the one that leaves the most usable, and the fullest of equal ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from bosket.scheduler.framework.extension import NodeScorer, Rows, Scores
from bosket.scheduler.framework.fragmentation import FreeGpus
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.task import PodClass
from bosket.scheduler.plugins.score import MAX_DENSITY

#: Growths that differ by less than one of these, in GPUs, are equal: sums over the mix differ in their last digits.
GRAIN = 1e-4


class LeastFragmentation(NodeScorer):
    """Scores between 0 and `MAX_DENSITY`; the latter is never reached."""

    by_arrays = True

    def __init__(self, free: FreeGpus, cpu: NodeScorer) -> None:
        """`cpu`: which node is better for pods without GPUs where the growth is the same; up to `MAX_DENSITY`."""
        self._free, self._cpu = free, cpu
        self._most = free.most_gpus + 1.0  # a growth is less than that, up or down
        self._step = MAX_DENSITY / 2 * GRAIN / (self._most + GRAIN)

    def cache_key(self, pod_class: PodClass) -> Hashable:
        return pod_class.wants_gpu

    def packs(self, pod_class: PodClass) -> bool:
        del pod_class
        return False

    def scores(self, pod_class: PodClass, rows: Rows) -> Scores:
        free = self._free
        chosen = np.arange(len(free.free)) if isinstance(rows, slice) else rows
        steps = free.growth(pod_class, chosen)
        steps /= GRAIN
        np.rint(steps, out=steps)
        if pod_class.wants_gpu:
            steps += free.free.take(chosen) / self._most
        else:
            steps += 1 - self._cpu.scores(pod_class, chosen) / (MAX_DENSITY + 1)
        steps *= -self._step
        steps += MAX_DENSITY / 2
        return steps

    def choose(self, pod_class: PodClass, row: NodeRow, names: Sequence[str], whole: int) -> Sequence[str]:
        """The shared ones among a node's best devices: see `DeviceChoice`."""
        share = pod_class.share
        assert share is not None
        worths = self._free.device_worths(pod_class, row, names, whole)
        rooms = self._free.rooms(row, names)
        ranked = [
            (-round(worth / GRAIN), False, room, name) for worth, room, name in zip(worths, rooms, names, strict=False)
        ]
        ranked += [(-round(worth / GRAIN), True, 0, "") for worth in worths[len(names) :]]
        return [name for _, is_whole, _, name in sorted(ranked)[: share.devices] if not is_whole]
