"""What the judge doesn't hold against us: where Bosket leaves KAI on purpose, and where a recording contradicts itself.

Each has a paragraph in docs/deviations.md. A case in which nothing else differs is called better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.outcome import PodState, status_name
from bosket.scheduler.model.job import Job, PodSet, SubGroupSet
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, TaskStatus

Json = dict[str, Any]

#: Statuses that a simulation gives, and that stay behind where KAI forgets to take it back.
SIMULATED = (TaskStatus.RELEASING, TaskStatus.PIPELINED)
STALE_GANG_EVICTION = "stalegangeviction"
STALE_FIELDS = ("stale", "staleMark")


def without_deviations(
    expected: Json, got: Json, snapshot: Snapshot, ends: Mapping[ObjectKey, PodState]
) -> tuple[Json, Json]:
    """Both answers without what may differ."""
    theirs, ours = dict(expected["podGroups"]), dict(got["podGroups"])
    thought_gone: set[str] = set()
    for key, job in snapshot.jobs.items():
        name = str(key)
        if name not in theirs or name not in ours:
            continue
        if theirs[name].get("started") and not any(each["pod"] in _pods(job) for each in expected["binds"]):
            theirs[name] = _without(theirs[name], ("started",))
        if _is_leftover(job, theirs[name], expected):
            if theirs[name].get("stale"):
                thought_gone |= _pods(job)
            del theirs[name], ours[name]
        elif _runs_without_all_subgroups(job, ends):
            theirs[name], ours[name] = (_without(entry, STALE_FIELDS) for entry in (theirs[name], ours[name]))
    evicted = {each["pod"] for each in expected["evictions"]}
    evictions = [each for each in got["evictions"] if each["pod"] in evicted or not _is_due(each, thought_gone)]
    return {**expected, "podGroups": theirs}, {**got, "podGroups": ours, "evictions": evictions}


def _is_due(eviction: Json, thought_gone: set[str]) -> bool:
    """Whether a stale gang's pod goes that KAI's own answer takes for one that is going already."""
    return eviction["action"] == STALE_GANG_EVICTION and eviction["pod"] in thought_gone


def _pods(job: Job) -> set[str]:
    return {str(task.key) for task in job.tasks}


def _is_leftover(job: Job, entry: Json, expected: Json) -> bool:
    """Whether the recorded end state has evictions or pipelines that were never decided."""
    evicted = {each["pod"] for each in expected["evictions"]}
    pipelined = {each["pod"] for each in expected["pipelined"]}
    decided = {
        **dict.fromkeys(evicted, TaskStatus.RELEASING),
        **dict.fromkeys(pipelined, TaskStatus.PIPELINED),
    }
    counts = Counter(decided.get(str(task.key), task.status) for task in job.tasks)
    return any(entry["pods"].get(status_name(status), 0) > counts[status] for status in SIMULATED)


def promised_in_vain(expected: Json, snapshot: Snapshot) -> set[str]:
    """Pending pods for which the answer itself has no room: they are promised what a leftover seems to leave, or the
    place that somebody who was moved keeps as well.

    With them go all pods of their pod groups, because the answer evicts for the groups as a whole.
    """
    nodes = snapshot.nodes
    free = nodes.idle + nodes.releasing
    tasks = {str(task.key): task for job in snapshot.jobs.values() for task in job.tasks}
    evicted = {each["pod"] for each in expected["evictions"]}
    for pod in evicted:
        if (row := nodes.rows.get(tasks[pod].node)) is not None:
            request = tasks[pod].pod_class.request
            free[: len(request), row] += request
    placed = {each["pod"]: nodes.rows[each["node"]] for each in (*expected["binds"], *expected["pipelined"])}
    for pod, row in placed.items():
        request = tasks[pod].pod_class.request
        free[: len(request), row] -= request
    short = set(np.flatnonzero((free < 0).any(axis=0) & (nodes.idle >= 0).all(axis=0)).tolist())
    promised = {each["pod"] for each in expected["pipelined"] if tasks[each["pod"]].status == TaskStatus.PENDING}
    groups = {tasks[pod].group for pod in promised if placed[pod] in short}
    return {pod for pod in promised if tasks[pod].group in groups}


def _runs_without_all_subgroups(job: Job, ends: Mapping[ObjectKey, PodState]) -> bool:
    """Whether the gang has its minimum, though some sub-group has not: KAI calls such a gang stale, we don't."""
    active = {task.key for task in job.tasks if ends[task.key].status in ACTIVE_ALLOCATED}
    return bool(active) and runs(job.root, active) and not all(runs(each, active) for each in job.root.pod_sets())


def runs(subgroup: PodSet | SubGroupSet, active: set[ObjectKey]) -> bool:
    """Whether a sub-group has its minimum when these pods run."""
    if isinstance(subgroup, PodSet):
        return sum(task.key in active for task in subgroup.tasks) >= subgroup.min_available
    return sum(runs(child, active) for child in subgroup.children) >= subgroup.min_children


def _without(entry: Json, fields: tuple[str, ...]) -> Json:
    return {key: value for key, value in entry.items() if key not in fields}
