"""What became of everything in a cycle: the snapshot, with the decisions laid over.

`states` says where each pod stands at the end of the cycle. `answer` is the whole outcome as plain JSON, in the form in
which recordings of KAI's own cycles have it, so that `replay` prints and the conformance tests compare the same thing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from bosket.api.kai import SchedulingCondition
from bosket.api.object import ObjectKey
from bosket.scheduler.model.bind_request import bind_request_for
from bosket.scheduler.model.decisions import Bind, Decisions, Eviction, Pipeline, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import CONDITION_TYPE, NotReady
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import TaskStatus

Json = dict[str, Any]

#: Decimals that fair shares are written with.
SHARE_DECIMALS = 6
SHARE_NAMES = ("gpu", "cpu", "memory")


_STATUS = {Bind: TaskStatus.BINDING, Eviction: TaskStatus.RELEASING, Pipeline: TaskStatus.PIPELINED}


class PodState(NamedTuple):
    """Where a pod stands."""

    status: TaskStatus
    node: str
    gpu_groups: tuple[str, ...] = ()


def states(snapshot: Snapshot, decisions: Decisions) -> dict[ObjectKey, PodState]:
    """The state of every job's pods at the end of the cycle."""
    result = {
        task.key: PodState(task.status, task.node, task.gpu_groups)
        for job in snapshot.jobs.values()
        for task in (*job.tasks, *job.orphan_tasks)
    }
    for task, operation in decisions.outcome.items():
        groups = task.gpu_groups if isinstance(operation, Eviction) else operation.gpu_groups
        result[task.key] = PodState(_STATUS[type(operation)], operation.node, groups)
    return result


def answer(snapshot: Snapshot, decisions: Decisions) -> Json:
    """The outcome as plain JSON."""
    return {
        "binds": sorted((_bind(bind) for bind in decisions.binds), key=_pod),
        "evictions": sorted((_eviction(eviction) for eviction in decisions.evictions), key=_pod),
        "pipelined": sorted((_pipeline(pipeline) for pipeline in decisions.pipelined), key=_pod),
        "podGroups": _pod_groups(snapshot, decisions),
        "fairShare": {
            queue: {name: round(share, SHARE_DECIMALS) for name, share in zip(SHARE_NAMES, shares, strict=True)}
            for queue, shares in decisions.fair_share.items()
        },
    }


def status_name(status: TaskStatus) -> str:
    """KAI's word for a status: `StuckInReleasing`."""
    return "".join(word.capitalize() for word in status.name.split("_"))


def _pod(entry: Json) -> str:
    return str(entry["pod"])


def _bind(bind: Bind) -> Json:
    spec = bind_request_for(bind).spec
    entry: Json = {"pod": str(bind.task.key), "node": bind.node, "type": spec.receivedResourceType}
    if spec.receivedGPU and spec.receivedGPU.count:
        entry |= {"gpuCount": spec.receivedGPU.count, "gpuPortion": spec.receivedGPU.portion}
    if spec.selectedGPUGroups:
        entry["gpuGroups"] = sorted(spec.selectedGPUGroups)
    return entry


def _eviction(eviction: Eviction) -> Json:
    entry = {"pod": str(eviction.task.key), "action": eviction.action}
    return entry if eviction.preemptor is None else {**entry, "preemptor": str(eviction.preemptor.key)}


def _pipeline(pipeline: Pipeline) -> Json:
    entry: Json = {"pod": str(pipeline.task.key), "node": pipeline.node, "action": pipeline.action}
    return {**entry, "gpuGroups": sorted(pipeline.gpu_groups)} if pipeline.gpu_groups else entry


def _pod_groups(snapshot: Snapshot, decisions: Decisions) -> Json:
    ends = states(snapshot, decisions)
    waiting = {each.job.key: each for each in decisions.waiting}
    settled = {job.key for job in decisions.settled}
    started = {job.key for job in decisions.started}
    stale = {stale.job.key: stale for stale in decisions.stale}
    recovered = {job.key for job in decisions.recovered}
    result: Json = {}
    for key, job in sorted(snapshot.jobs.items()):
        counts = Counter(ends[task.key].status for task in job.tasks)
        entry: Json = {"pods": {status_name(status): count for status, count in sorted(counts.items())}}
        if key in waiting and _is_not_ready(waiting[key]):
            entry["notReady"] = True
        entry |= _condition(job, waiting.get(key), settled=key in settled)
        if key in stale or (key not in recovered and job.history.stale_since is not None):
            entry["staleMark"] = True
        if key in stale and (stale[key].is_due or job.history.stale_since is not None):
            entry["stale"] = True
        if key in started:
            entry["started"] = True
        result[str(key)] = entry
    return result


def _condition(job: Job, waiting: Waiting | None, *, settled: bool) -> Json:
    """The newest scheduling condition as it is after the cycle."""
    if settled:
        return {}
    tried = waiting is not None and not waiting.active and (job.has_waiting or job.problem is not None)
    if waiting is None or not tried or _is_not_ready(waiting):
        before = job.group.status.schedulingConditions
        return _written(before[-1]) if before else {}
    codes = sorted({reason.code for reason in waiting.reasons if reason.code})
    return {"condition": CONDITION_TYPE, **({"reasons": codes} if codes else {})}


def _is_not_ready(waiting: Waiting) -> bool:
    return any(isinstance(reason, NotReady) for reason in waiting.reasons)


def _written(condition: SchedulingCondition) -> Json:
    reasons = sorted({each.reason for each in condition.reasons})
    return {"condition": condition.type, **({"reasons": reasons} if reasons else {})}
