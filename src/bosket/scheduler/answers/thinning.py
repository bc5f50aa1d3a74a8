"""Fewer waiting jobs for a simulation: those at the end of a line of equal ones are held back until it is their turn.

Of jobs that ask for the same, in one queue and with one priority, nobody starts before an older one does. A job changes
nothing while those before it in its line ask for all that is free, but costs every cycle its time. Where several queues
have jobs that wait, enough of each stay for its share: a queue that wants twice the cluster has the share of one that
wants more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.state.cluster_state import ClusterState

#: So many of each line stay at least: evictions may free more than is free now.
FIRST: Final = 3
#: Where several queues have jobs that wait: so many times what the cluster has of GPUs is what each goes on asking for.
_ENOUGH: Final = 2.0
#: Plugins by which a younger job may go before an older one that asks for the same.
_PASSING: Final = frozenset({"backfill"})

Shape = tuple[object, ...]
Pods = tuple[Pod, ...]


class Lines:
    """The jobs that are held back, in the order in which they come, and the line of each job that waits."""

    def __init__(self) -> None:
        self.shape_of: dict[ObjectKey, Shape] = {}
        self.held: dict[Shape, list[Pods]] = {}
        self.gpus: dict[Shape, float] = {}  #: that a job of the line asks for
        self.waiting: dict[Shape, int] = {}  #: jobs of the line that aren't held back


@contextmanager
def thinned(state: ClusterState, snapshot: Snapshot, configuration: Configuration) -> Iterator[Lines]:
    """Takes the pods of jobs that are held back out of the state, and puts them back at the end."""
    lines = _lines(snapshot, configuration)
    gone = [pod for held in lines.held.values() for pods in held for pod in pods]
    try:
        for pod in gone:
            state.drop(pod)
        yield lines
    finally:
        for pod in gone:
            state.put(pod)


def _lines(snapshot: Snapshot, configuration: Configuration) -> Lines:
    lines = Lines()
    if any(choice.name in _PASSING for choice in configuration.plugins):
        return lines
    waiting = [job for job in snapshot.unsettled if _is_simple(job)]
    waiting.sort(key=lambda job: (job.created, job.key.name, job.key.namespace))
    several = len({job.queue for job in snapshot.unsettled if job.has_pending}) > 1
    enough = _ENOUGH * float(snapshot.nodes.allocatable[GPU].sum()) if several else 0.0
    asked: dict[str, float] = {}
    seen: dict[Shape, int] = {}
    for job in waiting:
        shape = _shape(job)
        lines.shape_of[job.key] = shape
        seen[shape] = seen.get(shape, 0) + 1
        is_enough = asked.get(job.queue, 0.0) >= enough
        gpus = lines.gpus[shape] = sum(task.pod_class.charge[0] for task in job.tasks)
        # How many jobs without GPUs may start at once isn't known from what is free.
        if gpus and (shape in lines.held or (seen[shape] > FIRST and is_enough)):
            lines.held.setdefault(shape, []).append(tuple(task.pod for task in job.tasks))
        else:
            asked[job.queue] = asked.get(job.queue, 0.0) + gpus
            lines.waiting[shape] = lines.waiting.get(shape, 0) + 1
    return lines


def _is_simple(job: Job) -> bool:
    """Whether nothing but its age tells the job from others that ask for the same."""
    (first, *others) = job.pod_sets
    return not others and job.is_plain and len(first.pending) == len(first.tasks) == max(first.min_available, 1)


def _shape(job: Job) -> Shape:
    classes = sorted(task.pod_class.index for task in job.tasks)
    return (job.queue, job.priority, job.preemptible, job.root.topology, job.key.namespace, tuple(classes))
