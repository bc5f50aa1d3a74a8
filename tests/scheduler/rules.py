"""Rules that every decision must keep, each as a function that lists what breaks it.

Nothing here looks at the scheduler's own accounts: what is held is counted again from the snapshot and the decisions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.queue import UNLIMITED
from bosket.scheduler.model.reason import GangShort, NotReady, OverCapacity
from bosket.scheduler.model.resource import GPU, QUEUE_RESOURCES, Vector
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ACTIVE_USED, ALLOCATED, Task, TaskStatus
from bosket.scheduler.model.topology import OUTSIDE

#: Reasons that say how much is there and how much is wanted.
SHORTAGES = (GangShort, OverCapacity, NotReady)
#: The action that evicts on the victim's own account.
STALE = "stalegangeviction"

Rule = Callable[[Snapshot, Decisions], Iterator[str]]


def nodes_given_more_than_they_have(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Binds take what is free, pipelines what is being released, evictions give; a node in debt gives nothing."""
    idle, releasing = snapshot.nodes.idle.copy(), snapshot.nodes.releasing.copy()
    for each in decisions.operations:
        column = (idle if isinstance(each, Bind) else releasing)[:, snapshot.nodes.rows[each.node]]
        request = _without_gpus(each.task.pod_class.request)
        column[: len(request)] += request if isinstance(each, Eviction) else -request
    yield from _overdrawn(snapshot, snapshot.nodes.idle, idle, "bound")
    everything = snapshot.nodes.idle + snapshot.nodes.releasing
    yield from _overdrawn(snapshot, everything, idle + releasing, "bound or promised")


def gpus_given_more_than_once(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Whole ones and shared ones: what is bound now beside all that is there, what is promised beside all that stays.

    Where more was given away before the cycle than there is, nothing is said about the node.
    """
    given = {each.task: each for each in decisions.operations if not isinstance(each, Eviction)}
    bound = {task for task, each in given.items() if isinstance(each, Bind)}
    tasks = {task for there in snapshot.residents.values() for task in there}
    tasks |= {task for job in snapshot.jobs.values() for task in job.tasks}
    before, firm, last = _Devices(snapshot), _Devices(snapshot), _Devices(snapshot)
    for task in sorted(tasks, key=lambda each: each.key):
        if task.status in ACTIVE_USED:
            before.put(task, task.node, task.gpu_groups)
            firm.put(task, task.node, task.gpu_groups)
        end = decisions.outcome.get(task)
        if task in bound:
            first = next(each for each in decisions.binds if each.task is task)
            firm.put(task, first.node, first.gpu_groups)
        if isinstance(end, Eviction) or (end is None and task.status not in ACTIVE_ALLOCATED):
            continue
        last.put(task, end.node if end is not None else task.node, task.gpu_groups if end is None else end.gpu_groups)
    sound = {name for name in snapshot.nodes.rows if not list(before.broken(name))}
    for name in sorted({each.node for each in given.values()} & sound):
        if any(each.node == name for each in decisions.binds):
            yield from (f"{text}, counting what goes" for text in firm.broken(name))
        yield from last.broken(name)


class _Devices:
    """Who is on which GPUs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._whole: Counter[str] = Counter()
        self._groups: dict[str, Counter[str]] = {}

    def put(self, task: Task, node: str, groups: tuple[str, ...]) -> None:
        table, share = self._snapshot.nodes, task.pod_class.share
        if node not in table.rows:
            return
        if share is None:
            self._whole[node] += int(task.pod_class.request[GPU])
            return
        for group in groups:
            used = self._groups.setdefault(node, Counter())
            used[group] += share.memory_on(table.devices.sizes[table.rows[node]])

    def broken(self, node: str) -> Iterator[str]:
        table = self._snapshot.nodes
        row = table.rows[node]
        groups = self._groups.get(node, Counter())
        if self._whole[node] + len(groups) > table.allocatable[GPU, row]:
            yield f"{node} gives away {self._whole[node]} whole and {len(groups)} shared GPUs"
        for group, memory in groups.items():
            if memory > table.devices.sizes[row]:
                yield f"{memory} MiB of GPU {group} of {node} are given away"


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
        if any(taint.key not in tolerated and taint.effect != "PreferNoSchedule" for taint in node.spec.taints):
            yield f"{each.task.key} is put on {each.node}, whose taint it doesn't tolerate"


def parts_outside_one_domain(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Of a part of a job that must be in one domain, each pod set is in one, with what it had there before.

    As in KAI, a sub-group that gets its pods after the others, because these are enough, may be in another domain.
    """
    placed = {each.task for each in _placements(decisions)}
    for job in snapshot.jobs.values():
        for part in _parts(job.root):
            constraint = part.topology
            tree = snapshot.topologies.get(constraint.topology) if constraint is not None else None
            number = tree.number_of(constraint.required) if tree is not None and constraint is not None else None
            if tree is None or number is None:
                continue
            of_row, rows, label = tree.levels[number].of_row, snapshot.nodes.rows, tree.levels[number].label
            for pod_set in part.pod_sets():
                before, after = set(), set()
                given = False
                for task in pod_set.tasks:
                    if task.status in ACTIVE_ALLOCATED and task.node in rows:
                        before.add(int(of_row[rows[task.node]]))
                    if _active_after(task, decisions):
                        end = decisions.outcome.get(task)
                        after.add(int(of_row[rows[end.node if end is not None else task.node]]))
                        given |= task in placed
                if given and len(before) <= 1 and (len(after) > 1 or OUTSIDE in after):
                    yield f"{job.key}: part {part.name or 'as a whole'} is in {len(after)} domains of {label}"


def _parts(part: PodSet | SubGroupSet) -> Iterator[PodSet | SubGroupSet]:
    yield part
    for child in part.children if isinstance(part, SubGroupSet) else ():
        yield from _parts(child)


def gangs_below_their_minimum(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Whoever was given something has its minimum then, in every sub-group that got something and in all above it.

    What is bound at once must not rest on promises, what is pipelined may. Of a job that was evicted to make room, what
    is placed again rests on promises, and isn't more than it was if the job lacks pods.
    """
    bound = {bind.task for bind in decisions.binds}
    placed = bound | {each.task for each in decisions.pipelined if each.task.status not in ACTIVE_ALLOCATED}
    moved = {eviction.job.key for eviction in decisions.evictions}
    for key, job in snapshot.jobs.items():
        active = {task for task in job.tasks if _active_after(task, decisions)}
        firm = {task for task in active if not isinstance(decisions.outcome.get(task), Pipeline)}
        if key not in moved:
            yield from _broken_parts(job, job.root, bound, firm)
        if key not in moved or job.root.ready:
            yield from _broken_parts(job, job.root, placed & active, active)


def gangs_torn_apart(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Of a gang that was whole, evictions leave a whole gang or nothing."""
    for job in {eviction.job.key: eviction.job for eviction in decisions.evictions}.values():
        before = {task for task in job.tasks if task.status in ACTIVE_ALLOCATED}
        after = {task for task in job.tasks if _active_after(task, decisions)}
        if after and _satisfied(job.root, before) and not _satisfied(job.root, after):
            yield f"evictions left {job.key} with {len(after)} pods, below its minimum"


def victims_that_may_not_be(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Only preemptible work makes room for others, and only what is there can go."""
    for each in decisions.evictions:
        if each.action != STALE and not each.job.preemptible:
            yield f"{each.task.key} is evicted by {each.action}, and isn't preemptible"
        if each.task.status not in ACTIVE_ALLOCATED and not _placed_before(each, decisions):
            yield f"{each.task.key} is evicted, and has no place"


def queues_over_their_limit(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Of what was given in this cycle, no queue on the way up holds more than its limit."""
    limits = np.array([queue.limit for queue in snapshot.queues.queues]).reshape(-1, len(QUEUE_RESOURCES))
    yield from _exceeded(snapshot, decisions, limits, "limit", firm_only=False)


def non_preemptible_work_over_quota(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    quotas = np.array([queue.quota for queue in snapshot.queues.queues]).reshape(-1, len(QUEUE_RESOURCES))
    yield from _exceeded(snapshot, decisions, quotas, "quota", firm_only=True)


def silent_jobs(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Every job that has pending pods and got nothing has a reason; a shortage has numbers in it."""
    waiting = {each.job.key: each for each in decisions.waiting}
    placed = Counter(each.job.key for each in _placements(decisions))
    for key, job in snapshot.jobs.items():
        left = sum(task.status == TaskStatus.PENDING and task not in decisions.outcome for task in job.tasks)
        if left and key not in waiting:
            yield f"{key} has {left} pods left over, and nothing is said about it"
        if left and not placed[key] and key in waiting and not waiting[key].reasons:
            yield f"{key} got nothing, and has no reason"
    for key, each in waiting.items():
        for reason in each.reasons:
            if not str(reason).strip():
                yield f"a reason of {key} is empty"
            if isinstance(reason, SHORTAGES) and not re.search(r"\d", str(reason)):
                yield f"a reason of {key} has no numbers: {reason}"


def pods_decided_on_wrongly(snapshot: Snapshot, decisions: Decisions) -> Iterator[str]:
    """Only pods without a place are given one, once, unless they were evicted from it again."""
    homeless = {task for job in snapshot.jobs.values() for task in job.tasks if task.status == TaskStatus.PENDING}
    for each in decisions.operations:
        if isinstance(each, Eviction):
            homeless.add(each.task)
        elif each.task not in homeless:
            yield f"{each.task.key} is placed, and has a place or wants none"
        else:
            homeless.discard(each.task)
    for waiting in decisions.waiting:
        yield from (f"{task.key} waits, and was placed" for task in waiting.tasks if task in decisions.outcome)


ALL: tuple[Rule, ...] = (
    nodes_given_more_than_they_have,
    gpus_given_more_than_once,
    pods_on_nodes_that_refuse_them,
    parts_outside_one_domain,
    gangs_below_their_minimum,
    gangs_torn_apart,
    victims_that_may_not_be,
    queues_over_their_limit,
    non_preemptible_work_over_quota,
    silent_jobs,
    pods_decided_on_wrongly,
)


def _placements(decisions: Decisions) -> list[Bind | Pipeline]:
    """What is still so at the end of the cycle."""
    return [each for each in decisions.outcome.values() if not isinstance(each, Eviction)]


def _active_after(task: Task, decisions: Decisions) -> bool:
    """Whether a task counts towards its gang at the end of the cycle."""
    last = decisions.outcome.get(task)
    return task.status in ACTIVE_ALLOCATED if last is None else not isinstance(last, Eviction)


def _placed_before(eviction: Eviction, decisions: Decisions) -> bool:
    before = decisions.operations[: decisions.operations.index(eviction)]
    return any(each.task is eviction.task and not isinstance(each, Eviction) for each in before)


def _overdrawn(snapshot: Snapshot, before: np.ndarray, after: np.ndarray, how: str) -> Iterator[str]:
    for resource, row in np.argwhere((after < before) & (after < 0)):
        name, node = snapshot.resource_names[resource], snapshot.nodes.nodes[row].metadata.name
        yield f"{before[resource, row]:g} {name} are left on {node}, {-after[resource, row]:g} more were {how}"


def _broken_parts(job: Job, part: PodSet | SubGroupSet, given: set[Task], active: set[Task]) -> Iterator[str]:
    if not any(task in given for pod_set in part.pod_sets() for task in pod_set.tasks):
        return
    if not _satisfied(part, active):
        yield f"{job.key} was given pods, and its part {part.name or 'as a whole'} is below its minimum"
    if isinstance(part, SubGroupSet):
        for child in part.children:
            yield from _broken_parts(job, child, given, active)


def _satisfied(part: PodSet | SubGroupSet, active: set[Task]) -> bool:
    if isinstance(part, PodSet):
        return sum(task in active for task in part.tasks) >= part.min_available
    return sum(_satisfied(child, active) for child in part.children) >= part.min_children


def _exceeded(
    snapshot: Snapshot, decisions: Decisions, allowed: np.ndarray, what: str, *, firm_only: bool
) -> Iterator[str]:
    tree = snapshot.queues
    held, given = np.zeros_like(allowed), np.zeros_like(allowed)
    for job in snapshot.jobs.values():
        row = tree.rows.get(job.queue)
        if row is None or (firm_only and job.preemptible):
            continue
        path = list(tree.paths[row])
        for task in job.tasks:
            outcome = decisions.outcome.get(task)
            if isinstance(outcome, Eviction):
                continue
            if task.status in ALLOCATED and task.node in snapshot.nodes.rows:
                # One that moves costs what it will where it goes: GPU memory is a larger part of a smaller device.
                held[path] += _cost(snapshot, task, outcome.node if outcome is not None else task.node)
            elif outcome is not None:
                given[path] += _cost(snapshot, task, outcome.node)
    over = (allowed != UNLIMITED) & (given > 0) & (held + given > allowed + 1e-9)
    for row, resource in np.argwhere(over):
        total = held[row, resource] + given[row, resource]
        yield f"queue {tree.queues[row].name} holds {total:g}, its {what} is {allowed[row, resource]:g}"


def _cost(snapshot: Snapshot, task: Task, node: str) -> Vector:
    """What a task costs its queue on a node."""
    cost = task.pod_class.request[list(QUEUE_RESOURCES)]
    share = task.pod_class.share
    if share is not None:
        cost[0] = share.gpus_on(snapshot.nodes.devices.sizes[snapshot.nodes.rows[node]])
    return cost


def _without_gpus(request: Vector) -> Vector:
    rest = request.copy()
    rest[GPU] = 0
    return rest
