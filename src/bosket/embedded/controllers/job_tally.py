"""What a Job's pods amount to: how many run, have succeeded, have failed, and since when.

Kubernetes keeps a finalizer on every pod of a Job so that none is gone before it is counted. Here the controller sees
every pod leave, in the same process as the server, and remembers in memory what those that left were worth
(`Departed`); after a restart it takes the difference between the written counters and the pods still there. That
saves two writes per pod. The price: if pods end, and others that were counted are deleted, all while the controller
is down, some are missing from the count and run once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.time import parse_time
from bosket.embedded.controllers.job_failure_policy import Verdict, judge
from bosket.embedded.controllers.job_index import parse_indexes
from bosket.embedded.controllers.pods import is_ready, is_terminal, is_terminating, ready_condition, restarts

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


class Failure(NamedTuple):
    """A pod that counts as failed: when, which index it worked on, and whether that index may be tried again."""

    time: float
    of_index: int | None
    final: bool


@dataclass(slots=True)
class Departed:
    """What pods that are gone contributed to their job."""

    succeeded: int = 0
    failed: int = 0
    completed_indexes: set[int] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    last_success: float = 0.0

    def add(self, job: Job, pod: Pod, *, deleted_here: bool) -> None:
        """Count a pod that has just gone, by what was last seen of it."""
        if pod.status.phase == "Succeeded":
            self.succeeded += 1
            self.last_success = max(self.last_success, finished_at(pod))
            index = completion_index(pod)
            if index is not None:
                self.completed_indexes.add(index)
        elif pod.status.phase == "Failed":
            verdict = judge(job, pod)
            if verdict.action != "Ignore":
                self._add_failure(pod, verdict)
        elif is_failing(job) or not (deleted_here or is_suspended(job)):
            self._add_failure(pod, Verdict("Count"))

    def _add_failure(self, pod: Pod, verdict: Verdict) -> None:
        self.failed += 1
        self.failures.append(_failure(pod, verdict))


@dataclass(frozen=True, slots=True)
class Tally:
    """The pods of a job, sorted by what they mean for it."""

    active: list[Pod]
    #: Still there, but on their way out, whether or not they count as failed.
    terminating: list[Pod]
    succeeded: int
    failed: int
    completed_indexes: set[int]
    failed_indexes: set[int]
    ready: int
    restarts: int
    #: Why the pod failure policy ends the job, if it does.
    policy_failure: str | None
    failures: list[Failure]
    last_success: float


def tally(job: Job, pods: Iterable[Pod], departed: Departed, *, deleted_here: Callable[[Pod], bool]) -> Tally:
    """Sort the pods that `job` controls."""
    active: list[Pod] = []
    terminating: list[Pod] = []
    succeeded: list[Pod] = []
    failures = list(departed.failures)
    policy_failure: str | None = None
    for pod in pods:
        ours = deleted_here(pod)
        if pod.status.phase == "Succeeded":
            succeeded.append(pod)
        elif pod.status.phase == "Failed":
            verdict = judge(job, pod)
            if verdict.action == "FailJob":
                policy_failure = policy_failure or verdict.message
            if verdict.action != "Ignore":
                failures.append(_failure(pod, verdict))
        elif is_terminating(pod) or ours:
            terminating.append(pod)
            if is_failing(job) or not (ours or is_suspended(job) or replaces_only_failed(job)):
                failures.append(_failure(pod, Verdict("Count")))
        else:
            active.append(pod)
    completed = _completed_indexes(job, succeeded, departed)
    return Tally(
        active=active,
        terminating=terminating,
        succeeded=len(completed) if is_indexed(job) else departed.succeeded + len(succeeded),
        # What went before this process began is in the number, but there is nothing else to know of it.
        failed=departed.failed + len(failures) - len(departed.failures),
        completed_indexes=completed,
        failed_indexes=_failed_indexes(job, failures) - completed,
        ready=sum(is_ready(pod) for pod in active),
        restarts=sum(restarts(pod) for pod in active),
        policy_failure=policy_failure,
        failures=failures,
        last_success=max([departed.last_success, *(finished_at(pod) for pod in succeeded)]),
    )


def departed_before(job: Job, pods: Iterable[Pod]) -> Departed:
    """What must have gone before this process looked: written in the status, and no longer there."""
    present = tally(job, pods, Departed(), deleted_here=lambda _: False)
    return Departed(
        succeeded=max(0, job.status.succeeded - present.succeeded), failed=max(0, job.status.failed - present.failed)
    )


def is_indexed(job: Job) -> bool:
    """Whether each pod works on an index of its own."""
    return job.spec.completionMode == "Indexed"


def is_suspended(job: Job) -> bool:
    """Whether the job shall have no pods for now."""
    return job.spec.suspend is True


def is_failing(job: Job) -> bool:
    """Whether it is decided that the job fails: whatever still runs is counted as failed."""
    return any(each.type in ("FailureTarget", "Failed") and each.status == "True" for each in job.status.conditions)


def replaces_only_failed(job: Job) -> bool:
    """Whether a replacement waits until its predecessor has ended."""
    policy = job.spec.podReplacementPolicy
    return policy == "Failed" or (policy is None and job.spec.podFailurePolicy is not None)


def completion_index(pod: Pod) -> int | None:
    """Which of an indexed job's indexes the pod works on."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.labels.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else None


def finished_at(pod: Pod) -> float:
    """When the pod ended, as closely as it can be told."""
    ends = [
        parse_time(status.state.terminated.finishedAt)
        for status in pod.status.containerStatuses
        if status.state.terminated is not None and status.state.terminated.finishedAt
    ]
    if ends and is_terminal(pod):
        return max(ends)
    if pod.metadata.deletionTimestamp is not None:
        # The time stamp is when the grace period ends; the pod was doomed before.
        return parse_time(pod.metadata.deletionTimestamp) - (pod.metadata.deletionGracePeriodSeconds or 0)
    condition = ready_condition(pod)
    if condition is not None and condition.lastTransitionTime is not None:
        return parse_time(condition.lastTransitionTime)
    return parse_time(pod.metadata.creationTimestamp) if pod.metadata.creationTimestamp else 0.0


def _failure(pod: Pod, verdict: Verdict) -> Failure:
    return Failure(finished_at(pod), completion_index(pod), verdict.action == "FailIndex")


def _completed_indexes(job: Job, succeeded: list[Pod], departed: Departed) -> set[int]:
    if not is_indexed(job):
        return set()
    completions = job.spec.completions or 0
    indexes = parse_indexes(job.status.completedIndexes, completions) | departed.completed_indexes
    indexes |= {index for pod in succeeded if (index := completion_index(pod)) is not None}
    return {index for index in indexes if index < completions}


def _failed_indexes(job: Job, failures: list[Failure]) -> set[int]:
    """Indexes that have failed more often than they may."""
    limit = job.spec.backoffLimitPerIndex
    if limit is None:
        return set()
    completions = job.spec.completions or 0
    indexes = parse_indexes(job.status.failedIndexes or "", completions)
    counts = Counter(failure.of_index for failure in failures if failure.of_index is not None)
    indexes |= {index for index, count in counts.items() if count > limit}
    indexes |= {failure.of_index for failure in failures if failure.final and failure.of_index is not None}
    return {index for index in indexes if index < completions}
