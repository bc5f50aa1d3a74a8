"""DomainRoom: whether topology domains could have the GPUs for groups that must each be in one domain.

A necessary condition beside the room on nodes: without it, all victims of a cluster would be simulated for a gang that
fits in no rack. As in KAI, a group counts with all its GPUs, including those it has, and takes the domain with the
most; for jobs whose estimates are ignored, only pending tasks count, and a no is final.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import PodSet, SubGroupSet
from bosket.scheduler.model.node import NodeRow
from bosket.scheduler.model.resource import GPU, mig_gpus
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, Task
from bosket.scheduler.model.topology import OUTSIDE, TopologyLevel
from bosket.scheduler.solver.room import ROUNDING, Classes


class DomainRoom:
    """GPUs by domain, for every level that some group requires."""

    def __init__(self, session: Session, job: JobState, part: Sequence[Task], *, at_best: bool = False) -> None:
        """`part`: the pending tasks to be placed; `at_best`: as if no other pod were in the cluster."""
        by_level: dict[tuple[str, int], list[float]] = {}
        levels: list[TopologyLevel] = []
        by_fit = session.outcome.ignores_estimates(job)
        waiting: dict[tuple[str, int], set[Task]] = {}  # those that no group around this one has counted
        for group in _groups(job.job.root):
            assert group.topology is not None
            tree = session.snapshot.topologies.get(group.topology.topology)
            number = tree.number_of(group.topology.required) if tree is not None else None
            if tree is None or number is None:
                continue
            key = tree.name, number
            if key not in by_level:
                levels.append(tree.levels[number])
                waiting[key] = set(part)
            members = [task for each in group.pod_sets() for task in each.tasks]
            if by_fit:
                counted = waiting[key].intersection(members)
                waiting[key] -= counted
            else:
                counted = {task for task in members if task in waiting[key] or job.status(task) in ACTIVE_ALLOCATED}
            by_level.setdefault(key, []).append(sum(task.pod_class.charge[0] for task in members if task in counted))
        free = _gpus(session, at_best=at_best) if levels else np.zeros(0)
        self._levels = [
            (_LevelRoom if by_fit else _LevelRoomAsInKai)(level, free, sorted(demands, reverse=True))
            for level, demands in zip(levels, by_level.values(), strict=True)
        ]

    def add(self, row: NodeRow, gpus: float) -> None:
        """Adds GPUs that are freed on a node."""
        for each in self._levels:
            domain = each.of_row[row]
            if domain != OUTSIDE:
                each.free[domain] += gpus

    def suffices(self) -> bool:
        return all(each.suffices() for each in self._levels)


class _LevelRoom:
    def __init__(self, level: TopologyLevel, free: NDArray[np.float64], demands: list[float]) -> None:
        """`demands`: GPUs of each group, the largest first."""
        self.of_row, self._demands = level.of_row, demands
        inside = level.of_row != OUTSIDE
        #: (domain,): GPUs that are idle, being released, or freed by victims
        self.free = np.bincount(level.of_row[inside], weights=free[inside], minlength=len(level.names))

    def suffices(self) -> bool:
        """Whether groups could find their domains: all of them together, and those of each size and above.

        A group takes as much as so many of that size as fit into it, and a domain has room for so many of them. A no
        is final.
        """
        free = np.maximum(self.free, 0.0) + ROUNDING
        demands = np.array([each for each in self._demands if each])
        if demands.sum() > free.sum():
            return False
        units = ((demands[demands >= size], size) for size in set(demands.tolist()))
        return all(np.floor(large / size).sum() <= np.floor(free / size).sum() for large, size in units)


class _LevelRoomAsInKai(_LevelRoom):
    def suffices(self) -> bool:
        """Whether each group finds a domain, those with the most GPUs tried first."""
        left = np.sort(self.free)[::-1]
        for demand in self._demands:
            if not demand:
                break
            fitting = np.flatnonzero(left + ROUNDING >= demand)
            if not len(fitting):
                return False
            left[fitting[0]] -= demand
        return True


def grouped_classes(session: Session, job: JobState, pending: Sequence[Task]) -> list[tuple[TopologyLevel, Classes]]:
    """Of every group that must be in one domain: the level of that domain, and the classes of its pending tasks."""
    if not job.is_constrained or not session.extensions.node_subsets:
        return []
    found: list[tuple[TopologyLevel, Classes]] = []
    for part in _parts(job.job.root):
        constraint = part.topology
        tree = session.snapshot.topologies.get(constraint.topology) if constraint is not None else None
        number = tree.number_of(constraint.required) if tree is not None and constraint is not None else None
        if tree is None or number is None:
            continue
        names = {pod_set.name for pod_set in part.pod_sets()}
        classes = Counter(task.pod_class for task in pending if job.pod_set(task).name in names)
        if classes:
            found.append((tree.levels[number], classes))
    return found


def _parts(part: PodSet | SubGroupSet) -> Iterator[PodSet | SubGroupSet]:
    yield part
    for child in part.children if isinstance(part, SubGroupSet) else ():
        yield from _parts(child)


def _gpus(session: Session, *, at_best: bool) -> NDArray[np.float64]:
    """(node,): idle or being released, or all there are; parts of shared GPUs and of partitioned ones included."""
    nodes, every = session.nodes, session.snapshot.nodes.allocatable
    found = every[GPU] if at_best else nodes.free_gpus()
    for resource, name in enumerate(session.snapshot.resource_names):
        if parts := mig_gpus(name):
            found = found + (every[resource] if at_best else nodes.idle[resource] + nodes.releasing[resource]) * parts
    return found


def _groups(part: PodSet | SubGroupSet) -> Iterator[SubGroupSet]:
    """Sets of sub-groups that must be in one domain."""
    if isinstance(part, SubGroupSet):
        if part.topology is not None and part.topology.required:
            yield part
        for child in part.children:
            yield from _groups(child)
