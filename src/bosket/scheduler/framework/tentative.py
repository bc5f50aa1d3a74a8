"""Tentative: operations of a search that are in effect though nothing is decided.

A gang that found victims, but isn't served in this cycle, has its outcome left in effect, as KAI does: later jobs of
the cycle see the victims going and the gang on its nodes. `Statement.leave_in_effect` makes a `Tentative`, and the
session takes all of them back before stale gangs are looked at and before it closes.
"""

from __future__ import annotations

from collections.abc import Sequence

from bosket.scheduler.framework.extension import Kind, PlacementListener
from bosket.scheduler.framework.ledger import NodeLedger, QueueLedger
from bosket.scheduler.framework.operation import Operation
from bosket.scheduler.model.node import NOWHERE, NodeRow
from bosket.scheduler.model.resource import ResourceIndex
from bosket.scheduler.model.task import TaskStatus

ALLOCATE, PIPELINE, EVICT, _, _ = Kind
PIPELINED = TaskStatus.PIPELINED
#: The status in which an operation leaves its task; operations of other kinds put back the status before.
STATUS_AFTER = {ALLOCATE: TaskStatus.ALLOCATED, PIPELINE: PIPELINED, EVICT: TaskStatus.RELEASING}


class Tentative:
    """Operations that later jobs of the cycle see, until `take_back`."""

    def __init__(
        self,
        nodes: NodeLedger,
        queues: QueueLedger,
        listeners: Sequence[PlacementListener],
        operations: Sequence[Operation],
    ) -> None:
        self._nodes, self._queues, self._listeners = nodes, queues, listeners
        self.operations = tuple(operations)

    def unchanged(self) -> list[Operation]:
        """The operations whose task is still in the state that they left it in, the newest first."""
        last = {operation.task: operation for operation in self.operations}
        return [
            each
            for each in reversed(self.operations)
            if (kind := last[each.task].kind) not in STATUS_AFTER
            or each.job.placement(each.task)[:2] == (STATUS_AFTER[kind], last[each.task].row)
        ]

    def room_made(self) -> dict[tuple[ResourceIndex, NodeRow], float]:
        """By (resource, node): the room that these operations made; negative where they take room."""
        room: dict[tuple[ResourceIndex, NodeRow], float] = {}
        for each in self.unchanged():
            row = each.row
            for resource, amount in each.task.pod_class.holds if row != NOWHERE else ():
                room[resource, row] = room.get((resource, row), 0.0) + (amount if each.kind is EVICT else -amount)
        return room

    def take_back(self) -> None:
        """Reverses the operations, except for tasks that a later statement decided about.

        Other statements have changed the accounts since. Restoring old values would wipe out their changes, so amounts
        are subtracted here.
        """
        nodes, queues = self._nodes, self._queues
        for each in self.unchanged():
            kind, job, task, row, before = each.kind, each.job, each.task, each.row, each.before
            now, pod_class = job.placement(task), task.pod_class
            if row != NOWHERE:
                change = queues.charge if kind is EVICT else queues.credit
                change(job.queue_row, nodes.cost(pod_class, row), preemptible=job.job.preemptible)
                if kind is PIPELINE:
                    nodes.give(nodes.releasing_at, pod_class, row)
                elif kind is EVICT:
                    nodes.release(pod_class, before.row, is_promised=before.status is PIPELINED, sign=-1)
                else:
                    nodes.release(pod_class, now.row, is_promised=now.status is PIPELINED)
                if pod_class.share is not None:
                    back_to = None if kind is PIPELINE else before.status
                    nodes.move_on_devices(pod_class.share, row, each.gpu_groups, out=now.status, into=back_to)
                for listener in self._listeners:
                    listener.undone(kind, task, row)
            job.restore(task, before)
