"""History: what queues held, sample by sample, and their part of the cluster over a window.

In memory, without I/O and clock; used by the built-in store and by the simulator of time-based fair share.

The numbers equal Prometheus' for the same samples. Time is divided into steps of the resolution, at multiples of it; at
each step the latest sample counts, unless it is older than five minutes. A queue's usage is the sum of what it held
over the sum of what the cluster had, over all steps of the window; with a half-life both sums decay.

Only changes are stored per queue, so memory and time follow samples plus changes, not samples times queues.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bosket.api.quantity import InvalidQuantity
from bosket.scheduler.configuration.usage_window import Window
from bosket.scheduler.model.resource import (
    FIXED_NAMES,
    NOTHING,
    QUEUE_RESOURCES,
    QueueAmounts,
    UncountableAmount,
    amounts_of,
    plus,
)
from bosket.scheduler.model.snapshot import Snapshot

Milliseconds = int  #: since 1970, as Prometheus counts
#: How long a sample stands for what comes after it.
LOOKBACK_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What the cluster had, and what each queue held of it with all queues below, at one moment."""

    time: float  #: epoch seconds
    capacity: QueueAmounts
    held: Mapping[str, QueueAmounts]  #: by queue name; the others held nothing

    @property
    def milliseconds(self) -> Milliseconds:
        return round(self.time * 1000)


def sample_of(snapshot: Snapshot, now: float) -> Sample:
    """Each queue with all below it, as KAI's queue controller counts; of nodes all that they have."""
    tree = snapshot.queues
    held = [NOTHING] * len(tree.queues)
    for name, use in sorted(snapshot.use.items()):
        row = tree.rows.get(name)
        for step in tree.paths[row] if row is not None else ():
            held[step] = plus(held[step], use.allocated)
    by_name = {queue.name: amount for queue, amount in zip(tree.queues, held, strict=True) if amount != NOTHING}
    return Sample(now, _capacity(snapshot), by_name)


def _capacity(snapshot: Snapshot) -> QueueAmounts:
    """As kube-state-metrics reports it: what nodes have, whether or not pods may use all of it."""
    total = NOTHING
    for node in snapshot.nodes.nodes:
        try:
            amounts = amounts_of(node.status.capacity or node.status.allocatable)
        except (InvalidQuantity, UncountableAmount):
            continue  # a node whose own account can't be read counts for nothing
        gpus, millicores, memory = (float(amounts.get(FIXED_NAMES[resource], 0)) for resource in QUEUE_RESOURCES)
        total = plus(total, (gpus, millicores, memory))
    return total


@dataclass(slots=True)
class _Track:
    """What one queue held, from each time in `since` on."""

    since: array[int] = field(default_factory=lambda: array("q"))
    amounts: array[float] = field(default_factory=lambda: array("d"))  #: three for each time

    def now(self) -> QueueAmounts:
        gpus, millicores, memory = self.amounts[-3:] if self.since else NOTHING
        return gpus, millicores, memory

    def append(self, time: Milliseconds, amounts: QueueAmounts) -> None:
        self.since.append(time)
        self.amounts.extend(amounts)

    def keep(self, first: int, end: int | None = None) -> None:
        """Only the changes from `first` on, up to `end`."""
        self.since = self.since[first:end]
        self.amounts = self.amounts[3 * first : None if end is None else 3 * end]


class History:
    """Samples in the order of their times."""

    def __init__(self) -> None:
        self._times: array[int] = array("q")
        self._capacity: array[float] = array("d")  # three for each time
        self._tracks: dict[str, _Track] = {}

    @property
    def begin(self) -> Milliseconds | None:
        """The time of the oldest sample."""
        return self._times[0] if self._times else None

    @property
    def end(self) -> Milliseconds | None:
        """The time of the newest sample."""
        return self._times[-1] if self._times else None

    def changes(self, sample: Sample) -> dict[str, QueueAmounts]:
        """What the sample says that isn't known: by queue, what it holds from now on."""
        changed = {queue: held for queue, held in sample.held.items() if self._now(queue) != held}
        for queue, track in self._tracks.items():
            if queue not in sample.held and track.now() != NOTHING:
                changed[queue] = NOTHING
        return changed

    def append(self, time: Milliseconds, capacity: QueueAmounts, changes: Mapping[str, QueueAmounts]) -> None:
        """A sample, given as what changed. It is newer than all before: `forget_since` first if the clock went back."""
        assert not self._times or time > self._times[-1], "samples come in the order of their times"
        self._times.append(time)
        self._capacity.extend(capacity)
        for queue, amounts in changes.items():
            self._tracks.setdefault(queue, _Track()).append(time, amounts)

    def forget_before(self, time: Milliseconds) -> None:
        """Drops samples of before. What a queue held then, and still does, it holds from the first sample left on."""
        first = bisect_left(self._times, time)
        self._times, self._capacity = self._times[first:], self._capacity[3 * first :]
        if not self._times:
            self._tracks.clear()
            return
        begin = self._times[0]
        for queue, track in list(self._tracks.items()):
            in_force = bisect_right(track.since, begin) - 1
            if in_force >= 0:
                track.keep(in_force)
                track.since[0] = begin
                if not any(track.amounts[:3]):
                    track.keep(1)
            if not track.since:
                del self._tracks[queue]

    def forget_since(self, time: Milliseconds) -> None:
        """Drops samples of this time and later: by the clock as it is now they haven't happened."""
        end = bisect_left(self._times, time)
        self._times, self._capacity = self._times[:end], self._capacity[: 3 * end]
        for queue, track in list(self._tracks.items()):
            track.keep(0, bisect_left(track.since, time))
            if not track.since:
                del self._tracks[queue]

    def parts(
        self, window: Window, now: float, *, resolution_seconds: float, half_life_seconds: float | None = None
    ) -> dict[str, QueueAmounts]:
        """Of each queue that held anything in the window that ends `now`: its part of the cluster."""
        if not self._times:
            return {}
        times = np.array(self._times)
        weights = self._weights(times, window, now, resolution_seconds, half_life_seconds)
        capacity = weights @ np.array(self._capacity).reshape(-1, 3)
        until = np.concatenate(([0.0], np.cumsum(weights)))  # of all samples before the one of the same place
        result = {}
        for queue, track in self._tracks.items():
            begins = np.searchsorted(times, np.array(track.since))
            ends = np.append(begins[1:], len(times))
            used = (until[ends] - until[begins]) @ np.array(track.amounts).reshape(-1, 3)
            if used.any():
                gpu, cpu, memory = np.divide(used, capacity, out=np.zeros(3), where=capacity > 0).tolist()
                result[queue] = (gpu, cpu, memory)
        return result

    def _weights(
        self,
        times: NDArray[np.int64],
        window: Window,
        now: float,
        resolution_seconds: float,
        half_life_seconds: float | None,
    ) -> NDArray[np.float64]:
        """How much each sample counts: the number of steps that it stands for, the older the less."""
        resolution, end = round(resolution_seconds * 1000), round(now * 1000)
        begin = max(round(window.start(now) * 1000), int(times[0]) - 1)
        steps = np.arange(begin // resolution + 1, end // resolution + 1, dtype=np.int64) * resolution
        latest = np.searchsorted(times, steps, side="right") - 1
        fresh = steps - times[latest] < round(LOOKBACK_SECONDS * 1000)
        steps, latest = steps[fresh], latest[fresh]
        weights = np.ones(len(steps))
        if half_life_seconds is not None:
            weights = 0.5 ** ((end - steps) / (half_life_seconds * 1000))
        counted: NDArray[np.float64] = np.bincount(latest, weights, minlength=len(times)).astype(np.float64)
        return counted

    def _now(self, queue: str) -> QueueAmounts:
        track = self._tracks.get(queue)
        return track.now() if track is not None else NOTHING
