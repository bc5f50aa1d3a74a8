"""Room that comes free: which jobs would have to end for this one to start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.scheduler.answers.candidate import Candidate, Patches
from bosket.scheduler.answers.patching import removal
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.answers.workload_name import workload_of
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.reason import OverCapacity
from bosket.scheduler.model.task import ACTIVE_USED, Task

#: So many jobs are named in a sentence.
MOST_NAMED = 3
FREE_ROOM, WAIT = "free-room", "wait"


def of_room(trial: Trial) -> Iterator[Candidate]:
    """What ends by itself, or by its owner."""
    units = trial.ask(departures)
    patches = [tuple(map(removal, pods)) for _, pods in units]
    owners = [pods[0].metadata.namespace for _, pods in units]
    own = next((place for place, owner in enumerate(owners) if owner != trial.key.namespace), len(units))

    def patch(size: int) -> Patches:
        return tuple(each for some in patches[:size] for each in some)

    def jobs(size: int) -> str:
        names = [name for name, _ in units[:size]]
        more = f" and {size - MOST_NAMED} more" if size > MOST_NAMED else ""
        return f"{', '.join(names[:MOST_NAMED])}{more}"

    if own:
        yield Candidate(
            "user",
            FREE_ROOM,
            patch,
            lambda size: f"end {'another job' if size == 1 else f'{size} other jobs'} of its namespace: {jobs(size)}",
            most=own,
            is_number=True,
            from_below=True,
            has_commands=False,
        )
    if own < len(units):
        yield Candidate(
            "time",
            WAIT,
            patch,
            lambda size: f"wait until {'a job ends' if size == 1 else f'{size} jobs have ended'}: {jobs(size)}",
            most=len(units),
            is_number=True,
            from_below=True,
            has_commands=False,
        )


def departures(trial: Trial) -> list[tuple[str, list[Pod]]]:
    """Jobs with their pods, in the order in which their end would help the job: those that run on the nodes with least
    missing for it, then those that wait and have their turn first."""
    snapshot, job = trial.snapshot, trial.job
    by_queue = any(isinstance(each, OverCapacity) for each in (trial.waiting.reasons if trial.waiting else ()))
    rank = _node_ranks(trial)
    units: dict[ObjectKey, tuple[tuple[object, ...], list[Pod]]] = {}
    tree = snapshot.queues
    mine = set(tree.paths[tree.rows[job.queue]]) if job.queue in tree.rows else set()
    for node, residents in snapshot.residents.items():
        for task in residents:
            if task.status not in ACTIVE_USED or task.group == job.key or _is_of_node(task):
                continue
            key = task.group or task.key
            other = snapshot.jobs.get(key)
            distance = _distance(trial, mine, other) if by_queue else 0
            order = (distance, rank.get(node, len(rank)), -sum(task.pod_class.charge[:1]), key)
            known = units.get(key)
            if known is None:
                units[key] = (order, _pods(other, task))
            elif order < known[0]:
                units[key] = (order, known[1])
    ordered = sorted(units.items(), key=lambda item: item[1][0])
    found = [(_name(key, snapshot.jobs.get(key)), pods) for key, (_, pods) in ordered]
    for other in snapshot.unsettled:
        if other.key != job.key and other.has_pending and other.key not in units:
            found.append((_name(other.key, other), [task.pod for task in other.tasks]))
    return [(name, pods) for name, pods in found if pods]


def _name(key: ObjectKey, job: Job | None) -> str:
    """By the workload, which people know."""
    return f"{key.namespace}/{workload_of(job.group)[1] if job is not None else key.name}"


def _pods(job: Job | None, task: Task) -> list[Pod]:
    return [each.pod for each in job.tasks] if job is not None else [task.pod]


def _is_of_node(task: Task) -> bool:
    return any(each.controller and each.kind in ("DaemonSet", "Node") for each in task.pod.metadata.ownerReferences)


def _distance(trial: Trial, mine: set[QueueRow], other: Job | None) -> int:
    """How far from the job's queue the other's is: where a queue is full, only what is in it helps."""
    tree = trial.snapshot.queues
    if other is None or other.queue not in tree.rows:
        return len(tree.queues)
    path = tree.paths[tree.rows[other.queue]]
    return next((place for place, row in enumerate(path) if row in mine), len(path))


def _node_ranks(trial: Trial) -> dict[str, int]:
    """Nodes in order of how little each lacks for one more pod of the job; of domains the best first."""
    snapshot, job = trial.snapshot, trial.job
    table = snapshot.nodes
    waiting = [task for task in job.tasks if not task.node]
    if not waiting or not len(table):
        return {}
    request = waiting[0].pod_class.demand_by(table.devices.smallest)
    need = np.zeros(table.allocatable.shape[0])
    need[: len(request)] = request
    free = table.idle + table.releasing
    with np.errstate(divide="ignore", invalid="ignore"):
        short = np.where(need[:, None] > 0, np.maximum(need[:, None] - free, 0.0) / np.maximum(need[:, None], 1.0), 0.0)
    lacking = short.sum(axis=0)
    possible = snapshot.taking_nodes() & np.all(table.allocatable >= need[:, None], axis=0)
    domain = _domain_ranks(trial, lacking, possible, len(waiting))
    order = np.lexsort((np.arange(len(table)), lacking, domain, ~possible))
    return {table.nodes[int(row)].metadata.name: place for place, row in enumerate(order)}


def _domain_ranks(
    trial: Trial, lacking: np.ndarray[tuple[int], np.dtype[np.float64]],
    possible: np.ndarray[tuple[int], np.dtype[np.bool_]], pods: int,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:  # fmt: skip
    """(node,): how much the node's domain lacks, where the job needs one domain of a level; zeros where it doesn't."""
    ranks = np.zeros(len(lacking))
    constraint = next((each for each in trial.job.topologies() if each is not None and each.required), None)
    tree = trial.snapshot.topologies.get(constraint.topology) if constraint is not None else None
    if constraint is None or tree is None or (level := tree.number_of(constraint.required)) is None:
        return ranks
    of_row = tree.levels[level].of_row
    for domain in np.unique(of_row):
        rows = np.flatnonzero((of_row == domain) & possible)
        missing = float(np.sort(lacking[rows])[:pods].sum()) if len(rows) else np.inf
        ranks[of_row == domain] = missing + max(0, pods - len(rows)) * 1e-6
    return ranks
