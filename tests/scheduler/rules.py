"""Rules that every decision must keep, each as a function that lists what breaks it.

Nothing here looks at the scheduler's own accounts: what is held is counted again from the snapshot and the decisions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from bosket.api.object import ObjectKey
from bosket.scheduler.decisions import Bind, Decisions, Pipeline
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.resource import SHARED, Vector
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ALLOCATED, Task, TaskStatus
from bosket.scheduler.reason import GangShort, NotReady, OverCapacity
from bosket.scheduler.snapshot.snapshot import Snapshot

#: Reasons that say how much is there and how much is wanted.
SHORTAGES = (GangShort, OverCapacity, NotReady)


def nodes_given_more_than_they_have(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Binds take what is free, pipelines also what is being released; a node that holds too much gives nothing."""
    idle = snapshot.nodes.idle
    after = idle.copy()
    for bind in decisions.binds:
        _take(after, snapshot, bind.task, bind.node)
    yield from _overdrawn(snapshot, idle, after, "bound")
    everything = idle + snapshot.nodes.releasing
    after += snapshot.nodes.releasing
    for pipeline in decisions.pipelined:
        _take(after, snapshot, pipeline.task, pipeline.node)
    yield from _overdrawn(snapshot, everything, after, "bound or promised")


def pods_on_nodes_that_refuse_them(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Cordons, taints and node selectors."""
    for each in _placements(decisions):
        node = snapshot.nodes.nodes[snapshot.nodes.rows[each.node]]
        spec = each.task.pod.spec
        if node.spec.unschedulable:
            yield f"{each.task.key} is put on {each.node}, which is cordoned"
        if any(node.metadata.labels.get(key) != value for key, value in spec.nodeSelector.items()):
            yield f"{each.task.key} is put on {each.node}, which has other labels"
        tolerated = {toleration.key for toleration in spec.tolerations}
        if any(taint.key not in tolerated for taint in node.spec.taints):
            yield f"{each.task.key} is put on {each.node}, whose taint it doesn't tolerate"


def gangs_below_their_minimum(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Whoever was given something has its minimum then, in every sub-group that got something and in all above it.

    What is bound at once must not rest on promises, what is pipelined may.
    """
    bound = {bind.task.key for bind in decisions.binds}
    promised = {pipeline.task.key for pipeline in decisions.pipelined}
    for job in snapshot.jobs.values():
        active = {task.key for task in job.tasks if task.status in ACTIVE_ALLOCATED}
        yield from _broken_parts(job, job.root, bound, active | bound)
        yield from _broken_parts(job, job.root, bound | promised, active | bound | promised)


def queues_over_their_limit(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Of what was given in this cycle, no queue on the way up holds more than its limit."""
    limits = np.array([queue.limit for queue in snapshot.queues.queues]).reshape(-1, len(SHARED))
    yield from _exceeded(snapshot, decisions, limits, "limit", firm_only=False)


def non_preemptible_work_over_quota(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    quotas = np.array([queue.quota for queue in snapshot.queues.queues]).reshape(-1, len(SHARED))
    yield from _exceeded(snapshot, decisions, quotas, "quota", firm_only=True)


def silent_jobs(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Every job that has pending pods and got nothing has a reason; a shortage has numbers in it."""
    waiting = {each.job.key: each for each in decisions.waiting}
    placed = Counter(each.job.key for each in _placements(decisions))
    for key, job in snapshot.jobs.items():
        pending = sum(task.status == TaskStatus.PENDING for task in job.tasks)
        if pending > placed[key] and key not in waiting:
            yield f"{key} has {pending - placed[key]} pods left over, and nothing is said about it"
        unexplained = key in waiting and waiting[key].reason is None
        if pending and not placed[key] and unexplained and _complete(job.root):
            yield f"{key} got nothing, and has no reason"
    for key, each in waiting.items():
        text = str(each.reason) if each.reason is not None else "-"
        if not text.strip():
            yield f"the reason of {key} is empty"
        if isinstance(each.reason, SHORTAGES) and not re.search(r"\d", text):
            yield f"the reason of {key} has no numbers: {text}"


def pods_decided_on_wrongly(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Only pending pods are placed, each once, on nodes that are there."""
    pending = {
        task.key: task for job in snapshot.jobs.values() for task in job.tasks if task.status == TaskStatus.PENDING
    }
    seen = Counter(each.task.key for each in _placements(decisions))
    for key, times in seen.items():
        if key not in pending:
            yield f"{key} is placed, and isn't pending"
        if times > 1:
            yield f"{key} is placed {times} times"
    for each in decisions.waiting:
        yield from (f"{task.key} waits, and was placed" for task in each.tasks if task.key in seen)


def _placements(decisions: Decisions) -> list[Bind | Pipeline]:
    return [*decisions.binds, *decisions.pipelined]


def _take(amounts: np.ndarray, snapshot: Snapshot, task: Task, node: str) -> None:
    request = task.pod_class.request
    amounts[: len(request), snapshot.nodes.rows[node]] -= request


def _overdrawn(snapshot: Snapshot, before: np.ndarray, after: np.ndarray, how: str) -> Iterator[str]:
    for resource, row in np.argwhere((after < before) & (after < 0)):
        name, node = snapshot.resource_names[resource], snapshot.nodes.names[row]
        yield f"{before[resource, row]:g} {name} are left on {node}, {-after[resource, row]:g} more were {how}"


def _broken_parts(job: Job, part: PodSet | SubGroupSet, given: set[ObjectKey], active: set[ObjectKey]) -> Iterator[str]:
    if not any(task.key in given for pod_set in part.pod_sets() for task in pod_set.tasks):
        return
    if _complete(job.root) and not _satisfied(part, active):
        yield f"{job.key} was given pods, and its part {part.name or 'as a whole'} is below its minimum"
    if isinstance(part, SubGroupSet):
        for child in part.children:
            yield from _broken_parts(job, child, given, active)


def _complete(part: PodSet | SubGroupSet) -> bool:
    """Whether each part that has pending pods has as many pods as it needs; of others the scheduler may take some."""
    if not any(task.status == TaskStatus.PENDING for pod_set in part.pod_sets() for task in pod_set.tasks):
        return True
    return part.ready and (isinstance(part, PodSet) or all(map(_complete, part.children)))


def _satisfied(part: PodSet | SubGroupSet, active: set[ObjectKey]) -> bool:
    if isinstance(part, PodSet):
        return sum(task.key in active for task in part.tasks) >= part.min_available
    return sum(_satisfied(child, active) for child in part.children) >= part.min_children


def _exceeded(
    snapshot: Snapshot, decisions: Decisions, allowed: np.ndarray, what: str, *, firm_only: bool
) -> Iterator[str]:
    tree = snapshot.queues
    held, given = np.zeros_like(allowed), np.zeros_like(allowed)
    placed = {each.task.key for each in _placements(decisions)}
    for job in snapshot.jobs.values():
        row = tree.rows.get(job.queue)
        if row is None or (firm_only and job.preemptible):
            continue
        path = list(tree.paths[row])
        for task in job.tasks:
            if task.status in ALLOCATED and task.node in snapshot.nodes.rows:
                held[path] += _shared(task)
            elif task.key in placed:
                given[path] += _shared(task)
    over = (allowed != UNLIMITED) & (given > 0) & (held + given > allowed)
    for row, resource in np.argwhere(over):
        total = held[row, resource] + given[row, resource]
        yield f"queue {tree.queues[row].name} holds {total:g}, its {what} is {allowed[row, resource]:g}"


def _shared(task: Task) -> Vector:
    return task.pod_class.request[list(SHARED)]


ALL: tuple[Callable[[Snapshot, Decisions], Iterator[str]], ...] = (
    nodes_given_more_than_they_have,
    pods_on_nodes_that_refuse_them,
    gangs_below_their_minimum,
    queues_over_their_limit,
    non_preemptible_work_over_quota,
    silent_jobs,
    pods_decided_on_wrongly,
)
