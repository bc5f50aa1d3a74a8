"""The cheapest moves: which few jobs would have to move so that every task of a pending job has a node.

Task by task: a node that already has room, or the node where the fewest tasks must move. Whether these tasks find
another place is decided by a simulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.scenario import Batch
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.node import NOWHERE, Amounts2D, NodeRow, rows_in
from bosket.scheduler.model.resource import GPU, PODS, ResourceIndex
from bosket.scheduler.model.task import PodClass, Task
from bosket.scheduler.solver.eviction import next_to_evict, victim_of


def cheapest_to_move(session: Session, tasks: Iterable[Task], running: Iterable[JobState]) -> tuple[Batch, ...] | None:
    """The batches to move; empty when there is room already; None when no choice makes room."""
    search = _CheapestMoves(session, running)
    for task in tasks:
        # Shared GPUs are not considered: moves that would empty one, or make room on one.
        if task.pod_class.share is not None or not search.find_node(task.pod_class):
            return None
    return tuple(search.chosen)


class _CheapestMoves:
    """What would be free as more and more tasks are moved."""

    def __init__(self, session: Session, running: Iterable[JobState]) -> None:
        self._session = session
        self._free: Amounts2D = session.nodes.idle + session.nodes.releasing
        self.chosen: dict[Batch, None] = {}
        self._on: dict[NodeRow, list[Batch]] = {}
        # Often there is room for every task, and the thousands of running jobs needn't be read. Where some
        # of them are protected they are asked in any case, because the job's status names the first objection.
        self._running: Iterable[JobState] | None = running
        self._movable = self._find_movable(running) if session.limits.has_budgets else np.zeros((0, 0))

    def _find_movable(self, running: Iterable[JobState]) -> Amounts2D:
        """(resource, node): the amounts of the tasks that each job would give first. Also records these tasks by
        node."""
        session, movable, self._running = self._session, np.zeros_like(self._free), None
        for job in running:
            batch = Batch(job, tuple(next_to_evict(session, victim_of(job))))
            rows = {job.placement(task).row for task in batch.tasks}
            if NOWHERE in rows or session.limits.objection(batch.tasks) is not None:
                continue
            for row in rows:
                self._on.setdefault(row, []).append(batch)
            for task in batch.tasks:
                self._give(movable, task, job.placement(task).row)
        return movable

    def find_node(self, pod_class: PodClass) -> bool:
        """Takes a node for one more pod of a class; False when there is none."""
        allowed = self._session.views.of(pod_class).allowed
        there = allowed & self._fits(pod_class, self._free)
        if there.any():
            free_gpus = np.where(there, self._free[GPU], np.inf)
            self._take(pod_class, NodeRow(int(free_gpus.argmin())))
            return True
        if self._running is not None:  # before anybody is moved, so that all of them are where they were
            self._movable = self._find_movable(self._running)
        best: tuple[int, NodeRow] | None = None
        moves: list[Batch] = []
        for row in rows_in(allowed & self._fits(pod_class, self._free + self._movable)):
            needed = self._moves(pod_class, row, at_most=best[0] if best else None)
            if needed is not None:
                cost = sum(len(batch.tasks) for batch in needed)
                if best is None or (cost, row) < best:
                    best, moves = (cost, row), needed
        if best is None:
            return False
        for batch in moves:
            self._move(batch)
        self._take(pod_class, best[1])
        return True

    def _moves(self, pod_class: PodClass, row: NodeRow, at_most: int | None) -> list[Batch] | None:
        """The batches to move away from a node; None when that doesn't help or costs more tasks than allowed."""
        free = self._free[:, row].tolist()
        short = {resource: amount - free[resource] for resource, amount in pod_class.holds if free[resource] < amount}
        result: list[Batch] = []
        cost = 0
        candidates = [batch for batch in self._on.get(row, ()) if batch not in self.chosen]
        for batch in sorted(candidates, key=lambda each: self._cost_here(each, row, short)):
            if not any(missing > 0 for missing in short.values()):
                return result
            cost += len(batch.tasks)
            if at_most is not None and cost > at_most:
                return None
            result.append(batch)
            for resource, amount in self._freed(batch, row):
                if resource in short:
                    short[resource] -= amount
        return None if any(missing > 0 for missing in short.values()) else result

    def _cost_here(self, batch: Batch, row: NodeRow, short: Mapping[ResourceIndex, float]) -> tuple[float, str]:
        """Tasks that go for what becomes free on the node of what is missing there; by name on a tie."""
        freed: dict[ResourceIndex, float] = {}
        for resource, amount in self._freed(batch, row):
            freed[resource] = freed.get(resource, 0.0) + amount
        covered = sum(min(1.0, freed.get(resource, 0.0) / missing) for resource, missing in short.items())
        return len(batch.tasks) / covered if covered else math.inf, batch.tasks[0].uid

    @staticmethod
    def _freed(batch: Batch, row: NodeRow) -> Iterator[tuple[ResourceIndex, float]]:
        """By resource index, what the batch's tasks hold on a node."""
        for task in batch.tasks:
            if batch.job.placement(task).row == row:
                yield from task.pod_class.holds

    def _move(self, batch: Batch) -> None:
        self.chosen[batch] = None
        for task in batch.tasks:
            row = batch.job.placement(task).row
            self._give(self._free, task, row)
            for resource, amount in task.pod_class.holds:
                self._movable[resource, row] -= amount

    @staticmethod
    def _give(amounts: Amounts2D, task: Task, row: NodeRow) -> None:
        for resource, amount in task.pod_class.holds:
            amounts[resource, row] += amount

    def _take(self, pod_class: PodClass, row: NodeRow) -> None:
        for resource, amount in pod_class.holds:
            self._free[resource, row] -= amount

    @staticmethod
    def _fits(pod_class: PodClass, free: Amounts2D) -> np.ndarray:
        needed = pod_class.needed
        return np.asarray((free[needed] >= pod_class.request[needed][:, None]).all(axis=0) & (free[PODS] >= 1))
