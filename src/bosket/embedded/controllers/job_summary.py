"""The pods of a Job, summarized: how many run, succeeded and failed, and when.

Whose end has been counted is in the job's status and in the pods' finalizers (`job_tracking`), so that it is known
at any time, also by a controller that has just started. Only the pauses between attempts rest on what it remembers
(`Memory`), as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.pod_phase import has_ended
from bosket.api.quantity import integer_or_none
from bosket.api.time import parse_time
from bosket.embedded.controllers.job_failure_policy import Verdict, judge
from bosket.embedded.controllers.job_tracking import Count, is_tracked
from bosket.embedded.controllers.pods import is_ready, is_terminating, ready_condition, restarts

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: On pods of jobs with a limit per index: how many before this one have failed on its index.
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"


@dataclass(slots=True)
class Memory:
    """When a job's pods failed, by uid, also of those that are gone, and when one last succeeded."""

    failures: dict[str, float] = field(default_factory=dict)
    last_success: float = 0.0
    last_overlooked: float = 0.0  #: when one failed that the policy ignores

    def failures_in_a_row(self) -> list[float]:
        """The times of those since the last success."""
        return [time for time in self.failures.values() if time > self.last_success]


@dataclass(slots=True)
class Attempts:
    """What became of one index so far, in a job that has a limit per index."""

    failures: int = 0
    last_failure: float = 0.0
    #: Whether the pod failure policy gives the index up.
    given_up: bool = False
    #: How many failures the youngest pod on it knows of that hasn't failed itself.
    known: int = -1


@dataclass(slots=True)
class JobSummary:
    """The pods of a job, sorted by what they mean for it."""

    count: Count
    active: list[Pod] = field(default_factory=list)
    #: Still there, but on their way out, whether or not they count as failed.
    terminating: list[Pod] = field(default_factory=list)
    #: Pods that have ended, and ended as the counters have it; those of indexed jobs by `completed_indexes`.
    succeeded: int = 0
    failed: int = 0
    completed_indexes: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    attempts: dict[int, Attempts] = field(default_factory=dict)
    #: Why the pod failure policy ends the job, if it does.
    policy_failure: str | None = None
    #: Pods that may lose the finalizer once the status is written.
    release: list[Pod] = field(default_factory=list)
    #: Failed pods that stay until a pod that takes their place has written down how often its index has failed.
    kept: list[Pod] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    @property
    def ready(self) -> int:
        return sum(is_ready(pod) for pod in self.active)

    @property
    def restarts(self) -> int:
        return sum(restarts(pod) for pod in self.active)

    @property
    def is_settled(self) -> bool:
        """Whether everybody is gone or has ended, and is counted."""
        uncounted = self.count.uncounted
        waiting = self.active, self.terminating, self.release, self.kept, uncounted.succeeded, uncounted.failed
        return not any(waiting)


def summarize(job: Job, pods: list[Pod], memory: Memory, *, deleted_here: Callable[[Pod], bool]) -> JobSummary:
    """Sort the pods that `job` controls; `memory` learns what it didn't know."""
    settled = Count.settled(job, pods)
    result = JobSummary(count=settled, memory=memory, completed_indexes=_indexes(job, job.status.completedIndexes))
    succeeded: list[Pod] = []
    failed: list[tuple[Pod, Verdict]] = []
    for pod in pods:
        new = is_tracked(pod) and not settled.lists(pod)
        if pod.status.phase == "Succeeded":
            memory.last_success = max(memory.last_success, finished_at(pod))
            if new:
                succeeded.append(pod)
            continue
        going = is_terminating(pod) or deleted_here(pod)
        if pod.status.phase != "Failed":
            (result.terminating if going else result.active).append(pod)
        if pod.status.phase == "Failed" or (going and (is_failing(job) or not replaces_only_failed(job))):
            verdict = judge(job, pod)
            _remember(job, result, pod, verdict)
            if new:
                failed.append((pod, verdict))
    _count_indexes(job, result, pods, succeeded, failed)
    counted_failures = [pod for pod, verdict in failed if verdict.action != "Ignore"]
    result.failed = settled.all_failed + len(counted_failures)
    result.succeeded = len(result.completed_indexes) if is_indexed(job) else settled.all_succeeded + len(succeeded)
    listed = [pod for pod in counted_failures if pod not in result.kept]
    # The index of a pod that succeeded says that it is counted, where there is one.
    result.count = settled.add([] if is_indexed(job) else succeeded, listed)
    ignored = [pod for pod, verdict in failed if verdict.action == "Ignore" and pod not in result.kept]
    counted = [pod for pod in pods if is_tracked(pod) and result.count.lists(pod)]
    result.release = [*counted, *ignored, *(succeeded if is_indexed(job) else ())]
    return result


def is_indexed(job: Job) -> bool:
    """Whether each pod works on an index of its own."""
    return job.spec.completionMode == "Indexed"


def is_suspended(job: Job) -> bool:
    """Whether the job shall have no pods for now."""
    return job.spec.suspend is True


def is_failing(job: Job) -> bool:
    """Whether it is decided that the job fails: whatever still runs is counted as failed."""
    return _has_condition(job, "FailureTarget", "Failed")


def replaces_only_failed(job: Job) -> bool:
    """Whether a replacement waits until its predecessor has ended."""
    policy = job.spec.podReplacementPolicy
    return policy == "Failed" or (policy is None and job.spec.podFailurePolicy is not None)


def completion_index(pod: Pod) -> int | None:
    """Which of an indexed job's indexes the pod works on."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX) or pod.metadata.labels.get(COMPLETION_INDEX, "")
    return integer_or_none(text)


def finished_at(pod: Pod) -> float:
    """When the pod ended, as exactly as its status says."""
    ends = [
        parse_time(status.state.terminated.finishedAt)
        for status in pod.status.containerStatuses
        if status.state.terminated is not None and status.state.terminated.finishedAt
    ]
    if ends and has_ended(pod):
        return max(ends)
    if pod.metadata.deletionTimestamp is not None:
        # The time stamp is when the grace period ends; the pod was doomed before.
        return parse_time(pod.metadata.deletionTimestamp) - (pod.metadata.deletionGracePeriodSeconds or 0)
    condition = ready_condition(pod)
    if condition is not None and condition.lastTransitionTime is not None:
        return parse_time(condition.lastTransitionTime)
    return parse_time(pod.metadata.creationTimestamp) if pod.metadata.creationTimestamp else 0.0


def _remember(job: Job, result: JobSummary, pod: Pod, verdict: Verdict) -> None:
    """Take note of a pod that has failed, whether or not it is counted already."""
    if verdict.action == "FailJob":
        result.policy_failure = result.policy_failure or verdict.message
    if verdict.action == "Ignore":
        result.memory.last_overlooked = max(result.memory.last_overlooked, finished_at(pod))
    elif is_tracked(pod) or has_ended(pod):  # others were let go: they have not failed
        result.memory.failures[pod.metadata.uid] = finished_at(pod)
    index = completion_index(pod)
    if job.spec.backoffLimitPerIndex is None or index is None:
        return
    attempts = result.attempts.setdefault(index, Attempts())
    attempts.failures = max(attempts.failures, failures_of_index(pod, verdict))
    attempts.given_up |= verdict.action == "FailIndex"
    if verdict.action != "Ignore":
        attempts.last_failure = max(attempts.last_failure, finished_at(pod))


def failures_of_index(pod: Pod, verdict: Verdict) -> int:
    """How often the index has failed, with this pod, if it counts."""
    return _known_failures(pod) + (verdict.action != "Ignore")


def _known_failures(pod: Pod) -> int:
    text = pod.metadata.annotations.get(INDEX_FAILURES, "")
    return max(0, integer_or_none(text) or 0)


def _count_indexes(
    job: Job, result: JobSummary, pods: Iterable[Pod], succeeded: list[Pod], failed: list[tuple[Pod, Verdict]]
) -> None:
    """Which indexes are done, which have failed too often, and which pods to keep until a successor exists."""
    if not is_indexed(job):
        return
    completions = job.spec.completions or 0
    done = {index for pod in succeeded if (index := completion_index(pod)) is not None and index < completions}
    result.completed_indexes |= done
    limit = job.spec.backoffLimitPerIndex
    if limit is None:
        return
    for pod in pods:
        index = completion_index(pod)
        if index is not None and pod.status.phase != "Failed" and not is_terminating(pod):
            attempts = result.attempts.setdefault(index, Attempts())
            attempts.known = max(attempts.known, _known_failures(pod))
            attempts.failures = max(attempts.failures, attempts.known)
    over = {index for index, each in result.attempts.items() if each.given_up or each.failures > limit}
    over |= _indexes(job, job.status.failedIndexes or "")
    result.failed_indexes = {index for index in over if index < completions} - result.completed_indexes
    if _has_condition(job, "FailureTarget", "SuccessCriteriaMet"):
        return  # nobody takes anybody's place any more
    for pod, verdict in failed:
        index = completion_index(pod)
        if index is None or index >= completions or index in result.failed_indexes | result.completed_indexes:
            continue
        attempts = result.attempts[index]
        knows_most = 0 < failures_of_index(pod, verdict) == attempts.failures
        if knows_most and attempts.known < attempts.failures:
            result.kept.append(pod)


def _has_condition(job: Job, *types: str) -> bool:
    return any(each.type in types and each.status == "True" for each in job.status.conditions)


def _indexes(job: Job, text: str) -> set[int]:
    return parse_indexes(text, job.spec.completions or 0) if is_indexed(job) else set()


def parse_indexes(text: str, completions: int) -> set[int]:
    """The indexes that `text` names and that exist; what can't be read is left out."""
    indexes: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            continue
        indexes.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return indexes


def format_indexes(indexes: Iterable[int]) -> str:
    """Ascending; three or more in a row become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] + 1 == index:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_shown_run(first, last) for first, last in runs)


def _shown_run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
