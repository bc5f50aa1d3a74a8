"""All jobs of a cluster, one row each, for `bosket jobs` and `GET /jobs`: state, queue, position, age, nodes, why.

A row is made of the snapshot, and of what `decide` comes to on it where enough is known to decide. Where it isn't, as
for a tenant who may read one namespace only, why a job waits is what the scheduler has written on its pod group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, Literal

import msgspec

from bosket.api.eviction_note import eviction_note
from bosket.api.keys import EVICTION_NOTE_ANNOTATION
from bosket.api.object import ObjectKey
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.answers.workload_name import shown_names, workload_of
from bosket.scheduler.model.decisions import Decisions, Operation, Pipeline, Waiting
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, ACTIVE_USED, WAITING, Task, TaskStatus

State = Literal["pending", "pipelined", "running", "evicted", "ending", "finished"]
#: Kinds without which nothing can be decided.
NEEDED: Final = ("Node", "Queue", "Pod", "PodGroup")
_ENDED: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})


class JobRow(msgspec.Struct, frozen=True, rename="camel"):
    """One job."""

    namespace: str
    name: str  #: of the pod group
    workload: str  #: that owns it, as Kind/name
    shown: str  #: the workload's name, or the pod group's where several are called so
    queue: str
    priority: int
    preemptible: bool
    state: State
    position: int | None  #: among the jobs of its queue that wait, 1 is next; None: doesn't wait, or not known
    created: float  #: epoch seconds
    age_seconds: float
    pods: int
    running_pods: int  #: those that have a node
    min_pods: int
    gpus: float  #: that all its pods ask for which haven't ended
    nodes: tuple[str, ...]  #: where its pods are, or are about to be, by name
    sentence: str  #: why it waits, or what happens to it next; empty for a job that simply runs
    reason: str = ""  #: the reason's code, as the pod group's condition has it


class JobReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `bosket jobs --json` prints, and `GET /jobs` gives."""

    jobs: tuple[JobRow, ...]
    counts: dict[str, int]  #: by state, of these
    decided: bool = True  #: whether why they wait was found out now; otherwise it is what the scheduler has written

    @staticmethod
    def of(jobs: tuple[JobRow, ...], *, decided: bool = True) -> JobReport:
        """The report about these jobs."""
        return JobReport(jobs, dict(Counter(job.state for job in jobs)), decided)


def can_decide(unread: Collection[str]) -> bool:
    """Whether all is known that a decision needs, apart from these kinds."""
    return not any(kind in unread for kind in NEEDED)


def job_rows(snapshot: Snapshot, decisions: Decisions | None, now: float) -> tuple[JobRow, ...]:
    """A row for each job: by queue, those that wait last and in their order. `decisions`: None where they can't be."""
    sentences = Sentences(snapshot, decisions) if decisions is not None else None
    waiting = {each.job.key: each for each in decisions.waiting} if decisions is not None else {}
    shown = shown_names(job.group for job in snapshot.jobs.values())
    rows = [_row(job, waiting.get(key), sentences, shown, now) for key, job in sorted(snapshot.jobs.items())]
    order: Mapping[State, int] = {"running": 0, "ending": 1, "pipelined": 2, "pending": 3, "evicted": 4, "finished": 5}
    rows.sort(key=lambda row: (row.queue, order[row.state], row.position or 0, row.created, row.namespace, row.name))
    return tuple(rows)


def _row(
    job: Job, waiting: Waiting | None, sentences: Sentences | None, shown: Mapping[ObjectKey, str], now: float
) -> JobRow:
    tasks = (*job.tasks, *job.orphan_tasks)
    outcome = sentences.decisions.outcome if sentences is not None else {}
    state = _state(job, outcome)
    placed = {task.node for task in tasks if task.node and task.status in ACTIVE_USED}
    if state in ("pending", "pipelined"):
        placed |= {outcome[task].node for task in tasks if task in outcome and task.status in WAITING}
    ahead = sentences.line.ahead_of(job) if sentences is not None and state == "pending" else None
    code, sentence = _evicted(job, shown) if state == "evicted" else _why(job, state, waiting, sentences)
    return JobRow(
        namespace=job.key.namespace,
        name=job.key.name,
        workload="/".join(workload_of(job.group)),
        shown=shown[job.group.key],
        queue=job.queue,
        priority=job.priority,
        preemptible=job.preemptible,
        state=state,
        position=ahead + 1 if ahead is not None else None,
        created=job.created,
        age_seconds=max(0.0, now - job.created) if job.created else 0.0,
        pods=len(tasks),
        running_pods=sum(task.status in ACTIVE_USED for task in tasks),
        min_pods=sum(pod_set.min_available for pod_set in job.pod_sets),
        gpus=sum(task.pod_class.charge[0] for task in tasks if task.status not in _ENDED),
        nodes=tuple(sorted(placed)),
        sentence=sentence,
        reason=code,
    )


def _state(job: Job, outcome: Mapping[Task, Operation]) -> State:
    statuses = [task.status for task in job.tasks]
    if any(status in ACTIVE_ALLOCATED for status in statuses):
        return "running"
    started, evicted = job.history.last_started or 0.0, job.history.last_evicted or 0.0
    if any(status in ACTIVE_USED for status in statuses):
        return "evicted" if evicted > started else "ending"
    if any(status in WAITING for status in statuses):
        places = [outcome.get(task) for task in job.tasks if task.status in WAITING]
        return "pipelined" if any(isinstance(each, Pipeline) for each in places) else "pending"
    if statuses and all(status in _ENDED for status in statuses):
        return "finished"
    return "evicted" if evicted > started else "pending" if job.problem or not statuses else "finished"


def _why(job: Job, state: State, waiting: Waiting | None, sentences: Sentences | None) -> tuple[str, str]:
    """The code and the sentence of why the job waits, or of what happens to it next; empty where there is nothing."""
    if state in ("finished", "ending"):
        return "", ""
    if sentences is None:
        return _written(job) if state == "pending" else ("", "")
    answer = sentences.of(waiting) if waiting is not None else sentences.about(job.key)
    if answer is not None:
        return answer.reason.code, answer.sentence
    if state == "pending" and any(task in sentences.decisions.outcome for task in job.tasks):
        return "", "starts in the next cycle"
    return ("", "has no pods yet") if state == "pending" and not job.has_waiting else ("", "")


def _evicted(job: Job, shown: Mapping[ObjectKey, str]) -> tuple[str, str]:
    """The code, and the sentence about the eviction, with the name of the workload that took the place."""
    note = eviction_note(job.group.metadata.annotations.get(EVICTION_NOTE_ANNOTATION, ""))
    if note is None:
        return "Evicted", ""
    namespace, _, name = note.by.rpartition("/")
    by = f"{namespace}/{shown.get(ObjectKey(namespace, name), name)}" if note.by else ""
    return "Evicted", msgspec.structs.replace(note, by=by).sentence


def _written(job: Job) -> tuple[str, str]:
    """What the scheduler says on the pod group, the sentence first."""
    for condition in reversed(job.group.status.schedulingConditions):
        code = next((each.reason for each in condition.reasons if each.reason), "")
        return code, condition.message.partition("\n")[0].strip()
    return "", ""
