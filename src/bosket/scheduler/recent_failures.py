"""RecentFailures: jobs that found no room a moment ago and need not be tried in every cycle.

In a full cluster thousands of jobs may wait, and trying all of them takes longer than placing the one pod that has just
arrived. Where cycles only place, a job that found no room is left out until it changes, until a node where one of its
tasks would fit has more room, until its queue holds less if that was the reason, or until a second has passed. The last
rule covers what isn't compared here: greedy placing may succeed with less room, and plugins may look at anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Operation, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.node import Amounts2D
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import DomainsShort, GangShort, OverCapacity, TopologyUnsatisfied
from bosket.scheduler.model.resource import GPU, NOTHING, QueueAmounts, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import PodClass

#: All jobs are tried at least this often if anything changed.
ALL_SECONDS: Final = 1.0

#: Reasons about free resources, and about queue capacity.
_NO_ROOM = (GangShort, OverCapacity, TopologyUnsatisfied, DomainsShort)


class RecentFailures:
    """The jobs for which the last cycles found no room."""

    def __init__(self) -> None:
        self._failed: dict[ObjectKey, Waiting] = {}
        self._seen: Snapshot | None = None  # the snapshot of the last cycle
        self._placed: tuple[Operation, ...] = ()  # what the last cycle placed: the room that jobs didn't find then
        self._all_at = 0.0  # when all jobs were last tried

    def forget(self) -> None:
        """Makes the next cycle try all jobs."""
        self._failed.clear()
        self._seen = None

    def __bool__(self) -> bool:
        return bool(self._failed)

    @property
    def all_due_at(self) -> float:
        """The time at which all jobs are tried again."""
        return self._all_at + ALL_SECONDS

    def without(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot without jobs that would find no room again; the same object where all are to be tried."""
        seen = self._seen
        if seen is None or not self._failed or not 0 <= snapshot.now - self._all_at < ALL_SECONDS:
            return snapshot
        if not _is_comparable(seen, snapshot):
            return snapshot
        change = _Change(seen, snapshot, self._placed)
        tried = tuple(job for job in snapshot.unsettled if not self._fails_again(job, change))
        return replace(snapshot, unsettled=tried) if len(tried) < len(snapshot.unsettled) else snapshot

    def note(self, snapshot: Snapshot, part: Snapshot, decisions: Decisions) -> None:
        """Records the outcome of a cycle, on the whole snapshot or on `without`'s part."""
        if part is snapshot:
            self._failed.clear()
            self._all_at = snapshot.now
        else:
            for job in part.unsettled:
                self._failed.pop(job.key, None)
            self._failed = {key: each for key, each in self._failed.items() if key in snapshot.jobs}
        self._seen = snapshot
        self._placed = tuple(each for each in decisions.outcome.values() if not isinstance(each, Eviction))
        # Pipelined jobs take their room again in every cycle, so they are never left out.
        busy = {each.job.key for each in decisions.operations} | {claim.job for claim in snapshot.nominations}
        # A gang that isn't looked at would lose the nodes that are held for it.
        busy |= {each.job for each in decisions.reservations or ()}
        for each in decisions.waiting:
            if each.tasks and each.job.key not in busy and _lies_in_room(each):
                self._failed[each.job.key] = each

    def _fails_again(self, job: Job, change: _Change) -> bool:
        failed = self._failed.get(job.key)
        return failed is not None and failed.job is job and not change.may_help(failed)


def _lies_in_room(waiting: Waiting) -> bool:
    """Whether room is all that the job waits for; offers of volumes, devices and neighbours aren't compared."""
    if not waiting.reasons or not all(isinstance(each, _NO_ROOM) for each in waiting.reasons):
        return False
    return all(pod_class.special is None for pod_class in _classes(waiting))


def _classes(waiting: Waiting) -> set[PodClass]:
    return {task.pod_class for task in waiting.tasks}


def _is_comparable(before: Snapshot, after: Snapshot) -> bool:
    """Whether only pods and jobs changed."""
    return (
        before.nodes.static_version == after.nodes.static_version
        and before.queues is after.queues
        and before.resource_names == after.resource_names
        and before.topologies == after.topologies  # trees are compared by identity
        and before.usage is after.usage
        and before.denied == after.denied
    )


class _Change:
    """The difference of two snapshots: nodes with more room, queues that hold less."""

    def __init__(self, before: Snapshot, after: Snapshot, placed: tuple[Operation, ...]) -> None:
        """`placed`: by the cycle on the snapshot before, whose jobs found that much less."""
        had, has, tree = before.nodes, after.nodes, after.queues
        left, taken = had.idle + had.releasing, dict[str, QueueAmounts]()
        for each in placed:
            for resource, amount in each.task.pod_class.holds:
                left[resource, had.rows[each.node]] -= amount
            if isinstance(each, Bind):
                taken[each.job.queue] = plus(taken.get(each.job.queue, NOTHING), each.task.pod_class.charge)
        more = (has.idle + has.releasing > left).any(axis=0)
        rows = {int(row) for row in np.flatnonzero(more)}
        if had.devices is not has.devices:
            groups, others = had.devices.groups, has.devices.groups
            rows.update(row for row in groups.keys() | others.keys() if groups.get(row) is not others.get(row))
        at = sorted(rows)
        self._free: Amounts2D = has.idle[:, at] + has.releasing[:, at]  # of nodes with more room
        self._fits: dict[PodClass, bool] = {}
        self._tree = tree
        #: queues that hold less than the cycle before left them with, and those above them
        self._less: set[QueueRow] = set()
        for name, then in before.use.items():
            now = after.use.get(name)
            if (now is then and name not in taken) or name not in tree.rows:
                continue
            held = plus(then.allocated, taken.get(name, NOTHING))
            if now is None or any(a < b for a, b in zip(now.allocated, held, strict=True)):
                self._less.update(tree.paths[tree.rows[name]])

    def may_help(self, failed: Waiting) -> bool:
        """Whether a job that found no room might find some now."""
        classes = _classes(failed)
        if any(map(self._has_room, classes)):
            return True
        lies_in_queue = any(isinstance(each, OverCapacity) for each in failed.reasons)
        if not lies_in_queue and all(pod_class.share is None for pod_class in classes):
            return False
        row = self._tree.rows.get(failed.job.queue)
        return row is None or not self._less.isdisjoint(self._tree.paths[row])

    def _has_room(self, pod_class: PodClass) -> bool:
        """Whether a pod of the class fits on one of the nodes with more room."""
        found = self._fits.get(pod_class)
        if found is None:
            fits = np.ones(self._free.shape[1], dtype=bool)
            for resource, amount in pod_class.needs:
                if resource != GPU or pod_class.share is None:
                    fits &= self._free[resource] >= amount
            found = self._fits[pod_class] = bool(fits.any())
        return found
