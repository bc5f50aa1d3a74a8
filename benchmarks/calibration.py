"""A fixed piece of work to measure machines by: what `decide` is made of, without any of its code.

CPU times of one machine, or of one minute, say little about those of another: frequency, caches and neighbours differ.
Their ratio to this loop, measured in between, says more. It must never change: committed ratios rest on it.
"""

from __future__ import annotations

import gc
import heapq
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_NODES, _JOBS, _QUEUES, _PODS = 512, 120, 10, 8
_SHAPES = 12
REPEAT = 5


@dataclass(slots=True)
class _Job:
    queue: int
    priority: int
    created: int
    request: tuple[float, float, float]
    placed: list[int] = field(default_factory=list)


def work() -> int:
    """Places gangs on nodes, one by one: attributes, dicts, heaps, tuples, closures, and small arrays. Pods placed."""
    free = np.tile(np.array([[8.0], [128.0], [1024.0]]), (1, _NODES))
    labels = {f"node-{i:04}": {"zone": f"z{i // 128}", "rack": f"r{i // 16}"} for i in range(_NODES)}
    zones = {zone: at for at, zone in enumerate(sorted({each["zone"] for each in labels.values()}))}
    zone_of = np.array([zones[each["zone"]] for each in labels.values()])
    used: dict[int, float] = dict.fromkeys(range(_QUEUES), 0.0)
    waiting: list[list[tuple[int, int, int, _Job]]] = [[] for _ in range(_QUEUES)]
    for number in range(_JOBS):
        shape = number % _SHAPES
        job = _Job(number % _QUEUES, number * 7 % 5, number, (1.0 + shape % 2, 1.0 + shape, 8.0 + shape))
        heapq.heappush(waiting[job.queue], (-job.priority, job.created, number, job))
    verdicts: dict[tuple[float, ...], npt.NDArray[np.bool_]] = {}
    count = 0
    while any(waiting):
        queue = min((each for each in range(_QUEUES) if waiting[each]), key=lambda each: (used[each], each))
        job = heapq.heappop(waiting[queue])[3]
        fits = verdicts.get(job.request)
        if fits is None:
            fits = verdicts[job.request] = np.asarray((free >= np.array(job.request)[:, None]).all(axis=0))
        scores = np.where(fits, 8.0 - free[0] + 0.01 * (zone_of == job.queue % len(zones)), -1.0)
        for _ in range(_PODS):
            best = int(scores.argmax())
            if scores[best] < 0:
                break
            for resource, amount in enumerate(job.request):
                free[resource, best] -= amount
            column = free[:, best].tolist()
            for request, verdict in verdicts.items():
                verdict[best] = all(have >= want for have, want in zip(column, request, strict=True))
            scores[best] = 8.0 - column[0] if verdicts[job.request][best] else -1.0
            job.placed.append(best)
            count += 1
        used[queue] += job.request[0] * len(job.placed)
    return count


def once_ms() -> float:
    """CPU time of the loop, once."""
    was_enabled = gc.isenabled()
    gc.disable()  # as in `decide`
    try:
        began = time.process_time()
        work()
        return (time.process_time() - began) * 1e3
    finally:
        if was_enabled:
            gc.enable()


def loop_ms() -> float:
    """CPU time of the loop on this machine: the least of several."""
    return min(once_ms() for _ in range(REPEAT))
