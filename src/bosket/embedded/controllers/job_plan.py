"""The next step of a Job, computed without I/O: pods to create and delete, and the status.

The controller asks `plan` whenever something changed and carries out what it says. A job without completions is a
work queue: it is done when one pod has succeeded and none is left. Everything in a Job's spec is honoured but success
policies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from bosket.api.batch import Job, JobCondition, JobStatus
from bosket.api.core import Pod
from bosket.api.time import format_time, parse_time
from bosket.embedded.controllers.job_summary import (
    Attempts,
    JobSummary,
    completion_index,
    format_indexes,
    is_indexed,
    is_suspended,
    replaces_only_failed,
)
from bosket.embedded.controllers.job_tracking import is_tracked
from bosket.embedded.controllers.pods import in_order_of_deletion
from bosket.runtime.events import EventType

_DEFAULT_BACKOFF_LIMIT: Final = 6
_FIRST_BACKOFF_SECONDS: Final = 10.0
_LONGEST_BACKOFF_SECONDS: Final = 600.0
_OVERLOOKED_SECONDS: Final = 1.0


#: How it ends is announced by one condition, and sealed by another when no pod is left.
_FINAL: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
_COMPLETE: Final = JobCondition(
    type="SuccessCriteriaMet",
    status="True",
    reason="CompletionsReached",
    message="Reached expected number of succeeded pods",
)


class Notice(NamedTuple):
    """An event to report about the job."""

    type: EventType
    reason: str
    message: str


@dataclass(slots=True)
class Plan:
    """What to do. `status` is how it will be once `create` and `delete` are done."""

    status: JobStatus
    #: One entry per pod to create: its completion index, None for a job without indexes.
    create: list[int | None] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    #: Whether those that are deleted count as failed; others lose the finalizer first.
    deleted_have_failed: bool = False
    #: These lose the finalizer, but only once the status is written.
    release: list[Pod] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    look_again_seconds: float | None = None

    def look_again(self, seconds: float) -> None:
        if self.look_again_seconds is None or seconds < self.look_again_seconds:
            self.look_again_seconds = seconds


def plan(job: Job, pods: JobSummary, now: float) -> Plan:
    """The next steps of a job that is not finished."""
    result = Plan(status=_counted(job, pods), release=list(pods.release))
    _suspend_or_resume(job, result, now)
    failure = _condition(job.status, "FailureTarget") or _failure(job, pods, result, now)
    if failure is not None:
        _end(result, pods, failure, now)
    elif _is_complete(job, pods) or _condition(job.status, "SuccessCriteriaMet") is not None:
        _end(result, pods, _COMPLETE, now)
    else:
        _scale(job, pods, result, now)
    changed = len(result.create) - len(result.delete)
    terminating = len(pods.terminating) + len(result.delete)
    result.status = replace(result.status, active=len(pods.active) + changed, terminating=terminating)
    return result


def finished_condition(job: Job) -> JobCondition | None:
    """Why the job is over; None while it isn't."""
    return _condition(job.status, "Complete") or _condition(job.status, "Failed")


def _counted(job: Job, pods: JobSummary) -> JobStatus:
    return replace(
        job.status,
        succeeded=pods.succeeded if is_indexed(job) else pods.count.succeeded,
        failed=pods.count.failed,
        uncountedTerminatedPods=pods.count.uncounted,
        ready=pods.ready,
        completedIndexes=format_indexes(pods.completed_indexes) if is_indexed(job) else "",
        failedIndexes=None if job.spec.backoffLimitPerIndex is None else format_indexes(pods.failed_indexes),
    )


def _suspend_or_resume(job: Job, result: Plan, now: float) -> None:
    status = result.status
    was_suspended = _condition(status, "Suspended") is not None
    if is_suspended(job):
        if not was_suspended:
            suspended = JobCondition(type="Suspended", status="True", reason="JobSuspended", message="Job suspended")
            result.status = _with_condition(status, suspended, now)
            result.notices.append(Notice("Normal", "Suspended", "Job suspended"))
    elif was_suspended:
        resumed = JobCondition(type="Suspended", status="False", reason="JobResumed", message="Job resumed")
        result.status = replace(_with_condition(status, resumed, now), startTime=format_time(now))
        result.notices.append(Notice("Normal", "Resumed", "Job resumed"))
    elif status.startTime is None:
        result.status = replace(status, startTime=format_time(now))


def _failure(job: Job, pods: JobSummary, result: Plan, now: float) -> JobCondition | None:
    """Why the job fails now, if it does."""
    if pods.policy_failure is not None:
        return _failed("PodFailurePolicy", pods.policy_failure)
    limit = _DEFAULT_BACKOFF_LIMIT if job.spec.backoffLimit is None else job.spec.backoffLimit
    restarts_count = job.spec.template.spec.restartPolicy == "OnFailure"
    if pods.failed > limit or (restarts_count and pods.restarts > 0 and pods.restarts >= limit):
        return _failed("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    most = job.spec.maxFailedIndexes
    if most is not None and len(pods.failed_indexes) > most:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return _failed("MaxFailedIndexesExceeded", message)
    if pods.failed_indexes and len(pods.failed_indexes) + len(pods.completed_indexes) >= _completions(job):
        return _failed("FailedIndexes", "Job has failed indexes")
    deadline = job.spec.activeDeadlineSeconds
    if deadline is not None and not is_suspended(job) and result.status.startTime is not None:
        remaining = parse_time(result.status.startTime) + deadline - now
        if remaining <= 0:
            return _failed("DeadlineExceeded", "Job was active longer than specified deadline")
        result.look_again(remaining)
    return None


def _failed(reason: str, message: str) -> JobCondition:
    return JobCondition(type="FailureTarget", status="True", reason=reason, message=message)


def _is_complete(job: Job, pods: JobSummary) -> bool:
    if is_suspended(job):
        return False
    if job.spec.completions is None and not _is_single(job):
        return pods.succeeded > 0 and not pods.active
    return pods.succeeded >= _completions(job)


def _is_single(job: Job) -> bool:
    """A job that says neither how many nor how many at a time runs one pod."""
    return job.spec.completions is None and job.spec.parallelism is None


def _completions(job: Job) -> int:
    return 1 if job.spec.completions is None else job.spec.completions


def _end(result: Plan, pods: JobSummary, outcome: JobCondition, now: float) -> None:
    """Announce the outcome, end what still runs, and declare the job over when nothing is left."""
    if _condition(result.status, outcome.type) is None:
        result.status = _with_condition(result.status, outcome, now)
    result.look_again_seconds = None
    result.delete = list(pods.active)
    final = _FINAL[outcome.type]
    if final == "Failed":
        result.deleted_have_failed = True
    else:
        result.release += [pod for pod in pods.terminating if is_tracked(pod) and pod not in result.release]
    if not pods.is_settled:
        return
    result.status = _with_condition(result.status, replace(outcome, type=final), now)
    if final == "Complete":
        result.status = replace(result.status, completionTime=format_time(now))
        result.notices.append(Notice("Normal", "Completed", "Job completed"))
    else:
        result.notices.append(Notice("Warning", outcome.reason, outcome.message))


def _scale(job: Job, pods: JobSummary, result: Plan, now: float) -> None:
    """Bring the number of running pods to what it should be."""
    wanted = _wanted_active(job, pods)
    keep, surplus = _without_duplicates(job, pods)
    excess = max(0, len(keep) - wanted)
    result.delete = surplus + in_order_of_deletion(keep)[:excess]
    in_the_way = len(pods.terminating) if replaces_only_failed(job) else 0
    missing = wanted - len(keep) - in_the_way
    if missing <= 0:
        return
    candidates: list[int | None] = [None] * missing
    if is_indexed(job):
        taken = pods.completed_indexes | pods.failed_indexes | {completion_index(pod) for pod in keep}
        if replaces_only_failed(job):
            taken |= {completion_index(pod) for pod in pods.terminating}
        candidates = [index for index in range(_completions(job)) if index not in taken]
    for candidate in candidates:
        if len(result.create) == missing:
            return
        wait = _backoff_until(job, pods, candidate) - now
        if wait > 0:
            result.look_again(wait)
        else:
            result.create.append(candidate)


def _backoff_until(job: Job, pods: JobSummary, index: int | None) -> float:
    """When another pod may be tried: each failure in a row, of the index or of the whole job, doubles the pause.

    Kubernetes counts failures here that the policy ignores: a gang of eight that was evicted would wait for ten
    minutes. Here they make for the shortest of pauses, so that pods that can't live don't spin.
    """
    overlooked = pods.memory.last_overlooked + _OVERLOOKED_SECONDS
    if job.spec.backoffLimitPerIndex is not None and index is not None:
        attempts = pods.attempts.get(index, Attempts())
        failures, last = attempts.failures, attempts.last_failure
    else:
        in_a_row = pods.memory.failures_in_a_row()
        failures, last = len(in_a_row), max(in_a_row, default=0.0)
    if not failures:
        return overlooked
    delay = _FIRST_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10)
    return max(overlooked, last + min(delay, _LONGEST_BACKOFF_SECONDS))


def _wanted_active(job: Job, pods: JobSummary) -> int:
    if is_suspended(job):
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None and not _is_single(job):
        # A work queue: once a pod has found it empty, none is added.
        return len(pods.active) if pods.succeeded > 0 else parallelism
    return max(0, min(parallelism, _completions(job) - pods.succeeded - len(pods.failed_indexes)))


def _without_duplicates(job: Job, pods: JobSummary) -> tuple[list[Pod], list[Pod]]:
    """The running pods that are of use, and those whose index is done, unknown, or worked on by another."""
    if not is_indexed(job):
        return pods.active, []
    done = pods.completed_indexes | pods.failed_indexes
    by_index: dict[int, Pod] = {}
    surplus: list[Pod] = []
    for pod in reversed(in_order_of_deletion(pods.active)):  # the one that would be missed most keeps the index
        index = completion_index(pod)
        if index is None or index >= _completions(job) or index in done or index in by_index:
            surplus.append(pod)
        else:
            by_index[index] = pod
    return list(by_index.values()), surplus


def _condition(status: JobStatus, type: str) -> JobCondition | None:
    return next((each for each in status.conditions if each.type == type and each.status == "True"), None)


def _with_condition(status: JobStatus, condition: JobCondition, now: float) -> JobStatus:
    time = format_time(now)
    stamped = replace(condition, lastProbeTime=time, lastTransitionTime=time)
    others = tuple(each for each in status.conditions if each.type != condition.type)
    return replace(status, conditions=(*others, stamped))
