"""The ledger: where every GPU-second of a cluster went, by hour and queue, from a flight recording.

Between two cycles the cluster is as the first of them saw it. In that time each GPU is allocated to a queue, held for a
job of a queue that starts later (a reservation), on a node that takes no pods (down), idle while somebody waited, or
idle. What no queue uses is divided among queues by what they deserve and don't use. So each queue's capacity is the
sum of its five parts, and the capacities of all queues are the cluster's. Amounts are whole numbers: sums are exact.

A clock that goes back counts nothing until it has passed what is counted already; so does a second process, which
takes over from where the first one was. Nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from bosket.api.keys import USER_LABEL
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import WAITING, Task
from bosket.scheduler.recording.flight.frames import EvictedPod
from bosket.scheduler.recording.flight.reader import Decided, Moment
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import Partition
from bosket.scheduler.state.cluster_state import ClusterState

By = Literal["queue", "namespace", "user"]
HOUR: Final = 3600
_MICROS: Final = 1_000_000  # in a second
_MILLIS: Final = 1_000  # in a GPU
#: Of an amount, in a GPU-hour.
UNITS_PER_HOUR: Final = HOUR * _MICROS * _MILLIS
#: Pods that no queue is charged for, and what no queue deserves.
NOBODY: Final = ""


@dataclass(slots=True)
class Account:
    """One queue, namespace or user in one hour, in thousandths of a GPU times millionths of a second."""

    allocated: int = 0
    held: int = 0  #: kept for jobs that start later
    idle_waited: int = 0  #: free while a job of the queue waited for GPUs
    idle: int = 0
    down: int = 0
    deserved: int = 0  #: its quota; of a queue without one, nothing
    borrowed: int = 0  #: used beyond what it deserves
    lent: int = 0  #: of what it deserves, used by others
    lost: int = 0  #: work that evictions threw away
    borrowed_from: dict[str, int] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        return self.allocated + self.held + self.idle_waited + self.idle + self.down

    def add(self, other: Account) -> None:
        """Adds another account's amounts."""
        for name in _AMOUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for queue, amount in other.borrowed_from.items():
            self.borrowed_from[queue] = self.borrowed_from.get(queue, 0) + amount


_AMOUNTS: Final = (
    "allocated", "held", "idle_waited", "idle", "down", "deserved", "borrowed", "lent", "lost",
)  # fmt: skip
Key = tuple[str, str, str]  #: queue, namespace, user; the last two are empty for what no pod uses


class Ledger:
    """Accounts by hour, made of the cycles of a recording in their order."""

    def __init__(self, since: float = 0.0, until: float = float("inf")) -> None:
        self.accounts: dict[tuple[int, Key], Account] = {}  #: by hour (seconds since 1970) and whose
        self.capacity: dict[int, int] = {}  #: by hour: what the cluster had
        self._since, self._until = since, until
        self._cluster = _FollowedCluster()
        self._rates: _Rates | None = None
        self._counted: int | None = None  # microseconds since 1970, up to which everything is counted
        self._evicted: dict[ObjectKey, tuple[Key, int]] = {}  # decided, and not seen to leave yet: work that is lost

    def follow(self, entries: Iterable[Moment | Decided]) -> None:
        """Counts the time between the cycles."""
        for each in entries:
            if isinstance(each, Decided):
                self._note_evictions(each.outcome.evictions)
                continue
            self._count_until(each.cycle.time)
            snapshot = self._cluster.follow(each)
            self._rates = _Rates(snapshot, self._cluster)
            self._count_lost(each.cycle.time)

    def _count_until(self, time: float) -> None:
        now = round(max(self._since, min(time, self._until)) * _MICROS)
        began = self._counted
        if began is None or self._rates is None:
            self._counted = now
            return
        while began < now:
            hour = began // (HOUR * _MICROS) * HOUR
            ends = min(now, (hour + HOUR) * _MICROS)
            self._add(hour, self._rates, ends - began)
            began = ends
        self._counted = max(began, now)

    def _add(self, hour: int, rates: _Rates, micros: int) -> None:
        self.capacity[hour] = self.capacity.get(hour, 0) + rates.capacity * micros
        for key, rate in rates.accounts.items():
            account = self._account(hour, key)
            for name in _AMOUNTS:
                setattr(account, name, getattr(account, name) + getattr(rate, name) * micros)
            for queue, amount in rate.borrowed_from.items():
                account.borrowed_from[queue] = account.borrowed_from.get(queue, 0) + amount * micros

    def _account(self, hour: int, key: Key) -> Account:
        return self.accounts.setdefault((hour, key), Account())

    def _note_evictions(self, evictions: Sequence[EvictedPod]) -> None:
        for each in evictions:
            key = self._cluster.key_of(each.pod)
            if key is not None:
                self._evicted[each.pod] = key, round(each.lost_gpu_hours * UNITS_PER_HOUR)

    def _count_lost(self, time: float) -> None:
        """Work is lost when the pod leaves: what was only decided may have been dropped or refused."""
        if not self._evicted or not self._since <= time <= self._until:
            return
        for pod, (key, lost) in list(self._evicted.items()):
            if self._cluster.is_leaving(pod):
                del self._evicted[pod]
                hour = int(time) // HOUR * HOUR
                self._account(hour, key).lost += lost


class _FollowedCluster:
    """The live state of each cycle, kept up to date by what changed since the one before."""

    def __init__(self) -> None:
        self._state = ClusterState()
        self._lists: dict[str, tuple[KubeObject, ...]] = {}
        self._objects: dict[str, dict[ObjectKey, KubeObject]] = {name: {} for name in LISTS}
        self._options: object = None
        self._residents: dict[str, tuple[tuple[Task, ...], dict[Key, int]]] = {}

    def follow(self, moment: Moment) -> Snapshot:
        """The cluster as the cycle saw it."""
        recorded = moment.recorded
        options = recorded.parameters.state_options()
        if options != self._options:
            self._options, self._state, self._lists = options, ClusterState(options), {}
            self._objects = {name: {} for name in LISTS}
        shard = recorded.parameters.partition_params or Partition()
        for name, each in LISTS.items():
            listed = recorded.objects.get(name, ())
            if self._lists.get(name) is listed:
                continue
            self._lists[name] = listed
            known, handlers = self._objects[name], self._state.handlers(each.kind)
            after = {obj.key: obj for obj in listed if not each.sharded or shard.has(obj)}
            for key, obj in known.items():
                if key not in after:
                    handlers.drop(obj)
            for key, obj in after.items():
                if known.get(key) is not obj:
                    handlers.put(obj)
            self._objects[name] = after
        self._state.own.hold(recorded.commitments.reservations)
        return self._state.snapshot(moment.cycle.time)

    def key_of(self, pod: ObjectKey) -> Key | None:
        """Whose account the pod is on."""
        task = self._state.task(pod)
        return self._key(task) if task is not None else None

    def is_leaving(self, pod: ObjectKey) -> bool:
        """Whether the pod is gone or on its way out."""
        found = self._objects["pods"].get(pod)
        return found is None or bool(found.metadata.deletionTimestamp)

    def used_on(self, snapshot: Snapshot, node: str) -> Mapping[Key, int]:
        """What the pods on a node use, in thousandths of a GPU; made again only where they changed."""
        tasks = snapshot.residents.get(node, ())
        known = self._residents.get(node)
        if known is not None and known[0] is tasks:
            return known[1]
        size = snapshot.nodes.devices.sizes[snapshot.nodes.rows[node]]
        used: dict[Key, int] = {}
        for task in tasks:
            amount = round(task.pod_class.charge_on(size)[0] * _MILLIS)
            if amount:
                key = self._key(task)
                used[key] = used.get(key, 0) + amount
        self._residents[node] = tasks, used
        return used

    def _key(self, task: Task) -> Key:
        group = self._state.group(task.group) if task.group is not None else None
        if group is None:
            return NOBODY, task.key.namespace, ""
        return group.spec.queue, task.key.namespace, group.metadata.labels.get(USER_LABEL, "")


class _Rest(NamedTuple):
    """What no pod uses, in thousandths of a GPU."""

    held: dict[str, int]  #: by queue
    free: int
    down: int


class _Rates:
    """Accounts per microsecond, of one moment."""

    def __init__(self, snapshot: Snapshot, cluster: _FollowedCluster) -> None:
        self.accounts: dict[Key, Account] = {}
        used_by_queue: dict[str, int] = {}
        used_on: dict[str, int] = {}
        for node in snapshot.nodes.rows:
            for key, amount in cluster.used_on(snapshot, node).items():
                self._of(key).allocated += amount
                used_by_queue[key[0]] = used_by_queue.get(key[0], 0) + amount
                used_on[node] = used_on.get(node, 0) + amount
        rest = _rest(snapshot, used_on)
        self.capacity = sum(used_by_queue.values()) + sum(rest.held.values()) + rest.free + rest.down
        deserved = _deserved(snapshot)
        for queue, amount in rest.held.items():
            self._of((queue, "", "")).held += amount
        waits = _waiting_queues(snapshot)
        unused = {queue: max(0, amount - used_by_queue.get(queue, 0)) for queue, amount in deserved.items()}
        for queue, part in divided(rest.free, unused).items():
            account = self._of((queue, "", ""))
            if queue in waits or (queue == NOBODY and waits):
                account.idle_waited += part
            else:
                account.idle += part
        for queue, part in divided(rest.down, unused).items():
            self._of((queue, "", "")).down += part
        self._lend(used_by_queue, deserved, unused)

    def _of(self, key: Key) -> Account:
        return self.accounts.setdefault(key, Account())

    def _lend(self, used: Mapping[str, int], deserved: Mapping[str, int], unused: Mapping[str, int]) -> None:
        """Who uses what others deserve."""
        for queue, amount in deserved.items():
            self._of((queue, "", "")).deserved += amount
        over = {queue: amount - deserved.get(queue, 0) for queue, amount in used.items() if queue != NOBODY}
        over = {queue: amount for queue, amount in over.items() if amount > 0}
        can_lend, wanted = sum(unused.values()), sum(over.values())
        # What is borrowed beyond all that queues deserve and don't use is nobody's.
        lent = divided(min(wanted, can_lend), unused)
        from_nobody = wanted - min(wanted, can_lend)
        for lender, amount in lent.items():
            self._of((lender, "", "")).lent += amount
        sources = dict(lent)
        if from_nobody:
            sources[NOBODY] = sources.get(NOBODY, 0) + from_nobody
        for borrower, amount in sorted(over.items()):
            account = self._of((borrower, "", ""))
            account.borrowed += amount
            for lender, part in divided(amount, sources).items():
                account.borrowed_from[lender] = account.borrowed_from.get(lender, 0) + part


def divided(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """The amount in parts by weight, whole numbers whose sum is the amount; all to nobody where there is no weight."""
    if not amount:
        return {}
    total = sum(weights.values())
    if not total:
        return {NOBODY: amount}
    parts = {name: amount * weight // total for name, weight in weights.items() if weight}
    left = amount - sum(parts.values())
    by_remainder = sorted(parts, key=lambda name: (-(amount * weights[name] % total), name))
    for name in by_remainder[:left]:
        parts[name] += 1
    return {name: part for name, part in parts.items() if part}


def _rest(snapshot: Snapshot, used_on: Mapping[str, int]) -> _Rest:
    """What is left of each node."""
    table = snapshot.nodes
    has = np.rint(table.allocatable[GPU] * _MILLIS).astype(np.int64)
    takes, free, down = snapshot.taking_nodes(), 0, 0
    left: dict[str, int] = {}
    for node, row in table.rows.items():
        amount = max(0, int(has[row]) - used_on.get(node, 0))
        if not amount:
            continue
        if takes[row]:
            left[node] = amount
            free += amount
        else:
            down += amount
    held: dict[str, int] = {}
    for reservation in snapshot.reservations:
        job = snapshot.jobs.get(reservation.job)
        for each in reservation.nodes if job is not None else ():
            wanted = sum(round(amount * _MILLIS) for name, amount in each.amounts if name == "gpu")
            part = min(wanted, left.get(each.node, 0))
            if part and job is not None:
                left[each.node] -= part
                free -= part
                held[job.queue] = held.get(job.queue, 0) + part
    return _Rest(held, free, down)


def _deserved(snapshot: Snapshot) -> dict[str, int]:
    """The quotas of leaf queues, in thousandths of a GPU."""
    tree = snapshot.queues
    return {
        queue.name: max(0, round(queue.quota[0] * _MILLIS)) if queue.quota[0] != UNLIMITED else 0
        for row, queue in enumerate(tree.queues)
        if not tree.children[row]
    }


def _waiting_queues(snapshot: Snapshot) -> frozenset[str]:
    """Queues with a job of which a pod waits that asks for GPUs."""
    return frozenset(
        job.queue
        for job in snapshot.unsettled
        if any(task.status in WAITING and task.pod_class.charge[0] for task in job.tasks)
    )


def grouped(ledger: Ledger, by: By) -> Iterator[tuple[int, str, Account]]:
    """Accounts by hour and by queue, namespace or user; unused time is the queues' and shows with them alone."""
    at = ("queue", "namespace", "user").index(by)
    found: dict[tuple[int, str], Account] = {}
    for (hour, key), account in sorted(ledger.accounts.items()):
        if by != "queue" and not key[1]:
            continue
        found.setdefault((hour, key[at]), Account()).add(account)
    for (hour, name), account in sorted(found.items()):
        yield hour, name, account
