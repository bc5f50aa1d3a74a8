"""Changes of queues: limit, quota, minimum run times, and a queue that doesn't exist."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal

from bosket.api.kai import Queue as QueueObject
from bosket.api.kai import QueueResource, QueueResources, QueueSpec
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.scheduler.answers.candidate import Candidate, Patches
from bosket.scheduler.answers.patching import Patching, creation
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.queue import UNLIMITED, QueueRow
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, plus

_Bound = Literal["limit", "quota"]
#: By place in amounts: the field of a queue's spec, a step in the amounts' unit and in the field's, and its words.
_RESOURCES = (
    ("gpu", 1.0, 1.0, "GPUs"),
    ("cpu", 1000.0, 1000.0, "CPU cores"),
    ("memory", 1e9, 1000.0, "GB of memory"),
)


def of_queues(trial: Trial) -> Iterator[Candidate]:
    """Candidates for the queue's administrator."""
    job, tree = trial.job, trial.snapshot.queues
    if job.queue not in tree.rows:
        yield from _missing(trial)
        return
    yield from _raised(trial, "limit")
    yield from _raised(trial, "quota")
    yield from _min_runtimes(trial)


def _missing(trial: Trial) -> Iterator[Candidate]:
    name, tree = trial.job.queue, trial.snapshot.queues
    if not name or trial.cluster.get(QueueObject, ObjectKey("", name)) is not None:
        return
    parents = [row for row in tree.roots if tree.children[row]]
    free = QueueResource(quota=0, limit=UNLIMITED, overQuotaWeight=1)
    for parent in [*(tree.queues[row].name for row in parents), ""]:
        spec = QueueSpec(parentQueue=parent, resources=QueueResources(gpu=free, cpu=free, memory=free))
        made = QueueObject(metadata=ObjectMeta(name=name), spec=spec)
        where = f" below {parent}" if parent else ""
        sentence = f"create queue {name}{where}, without a quota of its own"
        yield Candidate.single("queue-admin", "create-queue", sentence, creation(made))


def allocated_by_row(trial: Trial) -> list[QueueAmounts]:
    """By row of the tree: what a queue and those below it hold."""
    tree, use = trial.snapshot.queues, trial.snapshot.use
    amounts = [NOTHING for _ in tree.queues]
    for row, queue in enumerate(tree.queues):
        if queue.name in use:
            for each in tree.paths[row]:
                amounts[each] = plus(amounts[each], use[queue.name].allocated)
    return amounts


def _raised(trial: Trial, bound: _Bound) -> Iterator[Candidate]:
    """A bound raised in all queues on the job's path in which it is too low, by whole units of one resource."""
    tree = trial.snapshot.queues
    wanted = _wanted(trial)
    held = allocated_by_row(trial)
    path = tree.paths[tree.rows[trial.job.queue]]
    for resource, (_, unit, _, _) in enumerate(_RESOURCES):
        if not wanted[resource]:
            continue
        bounds = [(row, getattr(tree.queues[row], bound)[resource]) for row in path]
        low = [(row, value) for row, value in bounds if UNLIMITED < value < held[row][resource] + wanted[resource]]
        if not low:
            continue
        # Others that wait in these queues may come first: as much as all of them ask for is enough.
        most = max(math.ceil((held[row][resource] + _requested(trial)[resource] - value) / unit) for row, value in low)
        yield _raise(trial, bound, resource, low, max(1, most))


def _raise(trial: Trial, bound: _Bound, resource: int, low: list[tuple[QueueRow, float]], most: int) -> Candidate:
    field, unit, in_field, words = _RESOURCES[resource]
    tree, held = trial.snapshot.queues, allocated_by_row(trial)
    # All of them get room for the same amount beyond what they hold; a queue that has that much already is left alone.
    least = min(value - held[row][resource] for row, value in low)

    def raised(size: int) -> list[tuple[str, float]]:
        room = least + size * unit
        amounts = [(tree.queues[row].name, value, held[row][resource] + room) for row, value in low]
        return [(name, math.ceil(new / unit - 1e-9)) for name, value, new in amounts if new > value]

    def patch(size: int) -> Patches:
        made: Patches = ()
        for name, count in raised(size):
            obj = trial.cluster.get(QueueObject, ObjectKey("", name))
            if obj is not None:
                path = ("spec", "resources", field, bound)
                made += Patching(obj).set(*path, value=float(count * in_field)).patch
        return made

    def sentence(size: int) -> str:
        changes = [f"queue {name}'s {words} {bound} to {count:g}" for name, count in raised(size)]
        return f"raise {' and '.join(changes)}"

    return Candidate("queue-admin", f"queue-{bound}", patch, sentence, most=most, is_number=True)


def _wanted(trial: Trial) -> QueueAmounts:
    return _asked_for(trial, [trial.job])


def _requested(trial: Trial) -> QueueAmounts:
    """What all jobs that wait ask for."""
    return _asked_for(trial, trial.snapshot.unsettled)


def _asked_for(trial: Trial, jobs: Iterable[Job]) -> QueueAmounts:
    """What the pending pods of these jobs ask for, if all GPUs were as small as the smallest."""
    total, smallest = NOTHING, trial.snapshot.nodes.devices.smallest
    for job in jobs:
        for pod_set in job.pod_sets:
            for task in pod_set.pending:
                total = plus(total, task.pod_class.charge_by(smallest))
    return total


def _min_runtimes(trial: Trial) -> Iterator[Candidate]:
    for field in ("reclaimMinRuntime", "preemptMinRuntime"):
        objects = [each for each in trial.cluster.objects(QueueObject) if isinstance(each, QueueObject)]
        set_in = [each for each in objects if getattr(each.spec, field)]
        patches = [patch for each in set_in for patch in Patching(each).set("spec", field, value="0s").patch]
        if patches:
            names = ", ".join(each.metadata.name for each in set_in)
            sentence = f"protect no running jobs of queue {names} any longer ({field}: 0s)"
            yield Candidate.single("queue-admin", "min-runtime", sentence, *patches)
