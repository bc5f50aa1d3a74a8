"""Accounts: what each queue holds and requests, with its descendants; updated group by group, exactly.

A change of one group costs as many additions as there are ancestors. A change of the tree, which is rare, recomputes
all sums. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from bosket.api.condition import find_condition, turned_at
from bosket.api.kai import PodGroup, Queue, QueueCondition, QueueStatus
from bosket.api.object import ObjectKey
from bosket.api.quantity import InvalidQuantity, Quantity, add, parse, subtract

RUNNING, WAITING = "running", "waiting"
#: Phases of groups that have their minimum of pods on nodes.
_RUNNING = frozenset({"Scheduled", "Running"})
FIELDS: Final = ("allocated", "allocatedNonPreemptible", "requested")
#: The condition of a queue that the scheduler sets aside because a queue above it isn't there; the type is KAI's.
ORPHAN: Final = "Orphan"

_Place = tuple[str, str]  #: a queue and a field of its status, or how jobs fare there


class _Sums:
    """Amounts by resource, for places."""

    def __init__(self) -> None:
        self._amounts: dict[_Place, dict[str, Quantity]] = {}

    def change(self, place: _Place, quantities: Mapping[str, Quantity], *, taken: bool) -> None:
        """What can't be read counts nothing."""
        amounts = self._amounts.setdefault(place, {})
        for name, quantity in quantities.items():
            try:
                amount = (subtract if taken else add)(amounts.get(name, "0"), quantity)
            except InvalidQuantity:
                continue
            if amount == "0":
                amounts.pop(name, None)
            else:
                amounts[name] = amount

    def of(self, place: _Place) -> dict[str, Quantity]:
        return dict(sorted(self._amounts.get(place, {}).items()))

    def items(self) -> Iterator[tuple[_Place, dict[str, Quantity]]]:
        return iter(self._amounts.items())


class Accounts:
    """The tree of queues, and the groups in it."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._groups: dict[ObjectKey, PodGroup] = {}
        self._own = _Sums()  # of the groups of a queue
        self._total = _Sums()  # with those of all queues below
        self._own_jobs: Counter[_Place] = Counter()  # by queue and how they fare
        self._jobs: Counter[_Place] = Counter()

    def put_group(self, key: ObjectKey, group: PodGroup | None) -> set[str]:
        """A group as it is now, None when it is gone; returns the queues whose status may have changed."""
        old = self._groups.pop(key, None)
        if group is not None:
            self._groups[key] = group
        changed: set[str] = set()
        for each, taken in ((old, True), (group, False)):
            if each is not None and each.spec.queue:
                self._charge(each, taken=taken)
                changed.update(self._path(each.spec.queue))
        return changed

    def put_queue(self, name: str, queue: Queue | None) -> set[str]:
        """A queue as it is now, None when it is gone; returns the queues whose status may have changed."""
        old = self._queues.pop(name, None)
        if queue is not None:
            self._queues[name] = queue
        if old is not None and queue is not None and old.spec.parentQueue == queue.spec.parentQueue:
            return {name}
        self._add_up()
        return set(self._queues)

    def queue(self, name: str) -> Queue | None:
        """The queue of this name, if there is one."""
        return self._queues.get(name)

    def status(self, name: str, now: float) -> QueueStatus:
        """What the status of a queue should say; conditions other than Orphan are whoever else's they are."""
        queue = self._queues[name]
        allocated, firm, requested = (self._total.of((name, each)) for each in FIELDS)
        children = sorted(each for each, child in self._queues.items() if child.spec.parentQueue == name)
        return QueueStatus(
            conditions=self._conditions(queue, now),
            childQueues=tuple(children),
            allocated=allocated,
            allocatedNonPreemptible=firm,
            requested=requested,
            gpus=round(sum(_gpus(amount) for resource, amount in allocated.items() if resource.endswith("/gpu")), 2),
            runningJobs=self._jobs[name, RUNNING],
            waitingJobs=self._jobs[name, WAITING],
            fairShare=queue.status.fairShare,  # the scheduler's
        )

    def _conditions(self, queue: Queue, now: float) -> tuple[QueueCondition, ...]:
        """Those that there are, and Orphan where the scheduler sets the queue aside, or did so.

        A queue that never was an orphan has no such condition: it would be a write for each that is created.
        """
        reason, message = self._why_orphan(queue)
        before = find_condition(queue.status.conditions, ORPHAN)
        if not reason and before is None:
            return queue.status.conditions
        status = "True" if reason else "False"
        orphan = QueueCondition(
            type=ORPHAN,
            status=status,
            lastTransitionTime=turned_at(before, status, now),
            reason=reason or "ParentFound",
            message=message or "the queues above it are there",
        )
        return (*(each for each in queue.status.conditions if each.type != ORPHAN), orphan)

    def _why_orphan(self, queue: Queue) -> tuple[str, str]:
        """Reason and message of the condition; empty for a queue that hangs together with a root."""
        name = queue.metadata.name
        path = list(self._path(name))
        last = self._queues.get(path[-1])
        if last is None:
            what = f'parent queue "{path[-1]}"' if len(path) == 2 else f'queue "{path[-1]}" above it'
            return "ParentNotFound", f"its {what} does not exist: nothing is scheduled in this queue or below it"
        if last.spec.parentQueue:
            circle = " → ".join((*path, last.spec.parentQueue))
            return "ParentsInCircle", f"its parents form a circle ({circle}): nothing is scheduled in this queue"
        return "", ""

    def _charge(self, group: PodGroup, *, taken: bool) -> None:
        if (fares := _fares(group)) is not None:
            self._own_jobs[group.spec.queue, fares] += -1 if taken else 1
            for name in self._path(group.spec.queue):
                self._jobs[name, fares] += -1 if taken else 1
        for each in FIELDS:
            quantities = getattr(group.status.resourcesStatus, each)
            self._own.change((group.spec.queue, each), quantities, taken=taken)
            for name in self._path(group.spec.queue):
                self._total.change((name, each), quantities, taken=taken)

    def _add_up(self) -> None:
        self._jobs = Counter()
        for (name, fares), count in self._own_jobs.items():
            for above in self._path(name):
                self._jobs[above, fares] += count
        self._total = _Sums()
        for (name, each), quantities in self._own.items():
            for above in self._path(name):
                self._total.change((above, each), quantities, taken=False)

    def _path(self, name: str) -> Iterator[str]:
        """A queue and all above it; a circle, which admission refuses, is gone round once."""
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            yield name
            queue = self._queues.get(name)
            name = queue.spec.parentQueue if queue is not None else ""


def _fares(group: PodGroup) -> str | None:
    """Whether a group counts as running or as waiting; None for one that has ended, or has no pods."""
    phase = group.status.phase
    if not phase:  # no controller of ours looks after it
        return WAITING if group.status.schedulingConditions else None
    if phase in _RUNNING:
        return RUNNING
    return WAITING if phase == "Pending" or (phase == "Evicted" and group.status.pending) else None


def _gpus(quantity: Quantity) -> float:
    try:
        return float(parse(quantity))
    except InvalidQuantity:
        return 0.0
