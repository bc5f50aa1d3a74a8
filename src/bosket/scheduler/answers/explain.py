"""Why a job waits, and what would start it: questions put to `decide`, with no placement logic of their own.

The command, the scheduler's local server and programs call it with a `Cluster`. The steps are the contract's: verdict,
sentence and reason, position, nodes, what was tried, who is in the way, and changes that are proved to help.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable

from bosket.api.core import Pod
from bosket.api.kai import PodGroup
from bosket.api.keys import POD_GROUP_ANNOTATION
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.answers.answer import Answer, Reason
from bosket.scheduler.answers.blockers import blockers
from bosket.scheduler.answers.candidates import candidates
from bosket.scheduler.answers.changes import Budget, ChangeSearch
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explanation import Attempt, Explanation, JobAhead, JobSummary, Position, State, Verdict
from bosket.scheduler.answers.job_table import job_rows
from bosket.scheduler.answers.node_groups import node_groups
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.answers.trial import Start, Trial
from bosket.scheduler.answers.workload_name import shown_names, workload_of
from bosket.scheduler.decide import open_session
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import ACTIVE_ALLOCATED, TaskStatus

#: Seconds of CPU after which no more changes are tried, by the number of nodes that a cluster has at most.
SECONDS = ((1000, 0.5), (1_000_000_000, 2.0))
ENDED = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
#: So many of the jobs ahead are named.
MOST_AHEAD = 5


class UnknownJob(LookupError):
    """There is no such job; the message names those that sound like it."""


def find_job(cluster: Cluster, key: ObjectKey) -> ObjectKey:
    """The pod group of that name, or that of the pod or workload of that name; it is a job of the cluster's snapshot.
    Raises `UnknownJob`."""
    found = _named_group(cluster, key)
    if found not in cluster.snapshot().jobs:  # a pod's annotation may name a group that has gone
        raise _not_ours(found)
    return found


def _not_ours(key: ObjectKey) -> UnknownJob:
    return UnknownJob(
        f"pod group {key} isn't one of this scheduler's: it has gone, or another scheduler or shard has it"
    )


def _named_group(cluster: Cluster, key: ObjectKey) -> ObjectKey:
    if cluster.get(PodGroup, key) is not None:
        return key
    pod = cluster.get(Pod, key)
    if pod is not None:
        group = pod.metadata.annotations.get(POD_GROUP_ANNOTATION)
        if group:
            return ObjectKey(key.namespace, group)
        raise UnknownJob(f"pod {key} has no pod group (annotation {POD_GROUP_ANNOTATION})")
    for obj in cluster.objects(PodGroup):
        if obj.metadata.namespace == key.namespace and _is_owned(obj, key.name):
            return obj.key
    for obj in cluster.objects(Pod):
        group = obj.metadata.annotations.get(POD_GROUP_ANNOTATION)
        if group and obj.metadata.namespace == key.namespace and _is_owned(obj, key.name):
            return ObjectKey(key.namespace, group)
    groups = [each for each in cluster.objects(PodGroup) if isinstance(each, PodGroup)]
    known = [ObjectKey(group.namespace, name) for group, name in shown_names(groups).items()]
    elsewhere = [str(each) for each in known if each.name == key.name]
    close = elsewhere or difflib.get_close_matches(str(key), list(map(str, known)), 3, 0.5)
    hint = f"; there is {' and '.join(close)}" if close else ""
    raise UnknownJob(f"there is no pod group, pod or workload {key}{hint}")


def _is_owned(obj: KubeObject, name: str) -> bool:
    return any(each.name == name for each in obj.metadata.ownerReferences)


def explain(
    cluster: Cluster,
    key: ObjectKey,
    *,
    seconds: float | None = None,
    decided: Decisions | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Explanation:
    """Why the pod group `key` waits, and what would start it. Raises `UnknownJob`.

    `seconds`: of CPU, after which no more changes are tried; 0 for none. `decided`: what the next cycle decides on this
    very cluster, where that is known already. `clock`: how much CPU was used.
    """
    began, decides_before = clock(), cluster.decides
    trial = Trial(cluster, key, decided)
    if key not in trial.snapshot.jobs:
        raise _not_ours(key)
    if seconds is None:
        seconds = next(each for nodes, each in SECONDS if len(trial.snapshot.nodes) <= nodes)
    job = trial.job
    verdict, state = _verdict(trial), _state(trial)
    answer = _answer(trial, verdict)
    waits = verdict in ("never", "not-now")
    session = open_session(trial.snapshot, cluster.configuration) if waits else None
    changes, complete = (
        ChangeSearch(trial, Budget(seconds, clock, began)).find(candidates(trial))
        if waits and seconds > 0
        else ((), not waits)
    )
    return Explanation(
        job=JobSummary(
            job.key.namespace, job.key.name, job.queue, job.priority, state, "/".join(workload_of(job.group))
        ),
        verdict=verdict,
        sentence=answer.sentence,
        reason=answer.reason,
        position=_position(trial) if waits else None,
        nodes=node_groups(trial, session) if session is not None else (),
        tried=_tried(trial) if waits else (),
        blockers=blockers(trial, session) if session is not None and verdict == "not-now" else (),
        changes=changes,
        complete=complete,
        snapshotDigest=cluster.digest(),
        decides=cluster.decides - decides_before,
        cpu_ms=round((clock() - began) * 1000, 1),
    )


def explain_as_written(cluster: Cluster, key: ObjectKey) -> Explanation:
    """What the scheduler has written about the job, for readers who may not see all that a decision needs: without a
    verdict, which nothing that is written tells for certain. Raises `UnknownJob`."""
    row = next(
        (each for each in job_rows(cluster.snapshot(), None, cluster.now) if (each.namespace, each.name) == key), None
    )
    if row is None:
        raise _not_ours(key)
    # Pods that end still hold their places.
    state: State = "running" if row.state == "ending" else row.state
    return Explanation(
        job=JobSummary(key.namespace, key.name, row.queue, row.priority, state, row.workload),
        verdict=None,
        sentence=row.sentence or "the scheduler has written nothing about it",
        reason=Reason(row.reason, "order"),
        position=None,
        nodes=(),
        tried=(),
        blockers=(),
        changes=(),
        complete=False,
        snapshotDigest=cluster.digest(),
        decides=0,
        cpu_ms=0.0,
    )


def _verdict(trial: Trial) -> Verdict:
    job = trial.job
    if not job.has_waiting and any(task.status in (*ACTIVE_ALLOCATED, *ENDED) for task in job.tasks):
        return "running"  # or it did: nothing of it waits
    start = trial.start
    if start is not None:
        return "waiting-for-termination" if start.waits and not start.evicts else "next-cycle"
    return "not-now" if trial.starts_in_emptied else "never"


def _state(trial: Trial) -> State:
    job, tasks = trial.job, list(trial.job.tasks)
    if job.has_waiting:
        nominated = any(each.job == job.key and not each.is_return for each in trial.snapshot.nominations)
        return "pipelined" if nominated or (trial.start is not None and trial.start.waits) else "pending"
    if any(task.status in ACTIVE_ALLOCATED for task in tasks):
        return "running"
    if tasks and all(task.status in ENDED for task in tasks):
        return "finished"
    return "evicted" if job.history.last_evicted is not None else "pending"


def _answer(trial: Trial, verdict: Verdict) -> Answer:
    """The reason and the sentence; where the job is about to start, what it still waits for."""
    if verdict == "running":
        if not any(task.status in ACTIVE_ALLOCATED for task in trial.job.tasks):
            return Answer(Reason("Finished", "order"), f"has ended: {_pods(len(list(trial.job.tasks)))}")
        running = sum(task.status in ACTIVE_ALLOCATED for task in trial.job.tasks)
        return Answer(Reason("Running", "order"), f"runs with {_pods(running)}")
    if verdict in ("next-cycle", "waiting-for-termination"):
        assert trial.start is not None
        return _starting(trial.start)
    never = None
    if verdict == "never":
        never = answer_in_emptied(trial.emptied_snapshot, trial.empty_decisions, trial.key)
    waiting = trial.waiting
    # What others get in their turns counts, too, where nobody can be evicted for the job.
    decisions = trial.whole if trial.start_alone is not None else trial.placing
    answer = Sentences(trial.snapshot, decisions).of(waiting) if waiting is not None else None
    return chosen(never, answer) or Answer(Reason("", "order"), "waits for its turn")


def chosen(never: Answer | None, now: Answer | None) -> Answer | None:
    """Of why a job could never start and why it doesn't start now the first; where they are the same, that with the
    amounts of now."""
    if never is None or (now is not None and _is_same(now.reason, never.reason)):
        return now
    return never


def _is_same(left: Reason, right: Reason) -> bool:
    return (left.code, left.tier, left.resource, left.scope) == (right.code, right.tier, right.resource, right.scope)


def answer_in_emptied(snapshot: Snapshot, decisions: Decisions, key: ObjectKey) -> Answer | None:
    """Why a job doesn't start even where nobody else is: that, and not what else is in its way, is what matters."""
    answer = Sentences(snapshot, decisions).about(key)
    if answer is None:
        return None
    return Answer(
        answer.reason, answer.sentence.removesuffix("; no job ahead")
    )  # there are none, in an emptied cluster


def _starting(start: Start) -> Answer:
    nodes = sorted(set(start.nodes.values()))
    where = f"{_pods(len(start.nodes))} on {', '.join(nodes[:3])}{' …' if len(nodes) > 3 else ''}"
    if start.evicts:
        return Answer(
            Reason("Pipelined", "order"), f"the next cycle evicts {_pods(len(start.evicts))} for it, to start {where}"
        )
    if start.waits:
        return Answer(Reason("WaitingForTermination", "nodes"), f"starts with {where} once pods there have ended")
    return Answer(Reason("NextCycle", "order"), f"the next cycle starts it: {where}")


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count != 1 else ''}"


def _position(trial: Trial) -> Position | None:
    job, line = trial.job, Sentences(trial.snapshot, trial.placing).line
    waiting = line.of(job.queue)
    place = line.ahead_of(job)
    if place is None:
        return None
    ahead = tuple(
        JobAhead(each.key.namespace, each.key.name, _why_ahead(each, job), "/".join(workload_of(each.group)))
        for each in waiting[:place]
    )
    return Position(place + 1, len(waiting), ahead[:MOST_AHEAD])


def _why_ahead(other: Job, job: Job) -> str:
    if other.priority > job.priority:
        return f"priority {other.priority}, this one has {job.priority}"
    if other.priority == job.priority and other.created < job.created:
        return f"was submitted {_span(job.created - other.created)} earlier"
    return "comes first by the scheduler's order of jobs"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _tried(trial: Trial) -> tuple[Attempt, ...]:
    """What each action did for the job, where it alone was waiting: the search on its behalf is then all there is."""
    decisions = trial.decisions
    steps = {step.name: step for step in decisions.steps}
    found = []
    for name in trial.cluster.configuration.actions:
        step = steps.get(name)
        if step is None or name == "stalegangeviction":
            continue
        searches = decisions.searches
        searched = sum(
            count for (action, _, state), count in searches.scenarios.items() if action == name and state == "simulated"
        )
        cut_short = any(
            action == name and result in ("deadline_exhausted", "not_attempted") for action, result, _ in searches.jobs
        )
        if cut_short:
            outcome = "search cut short"
        elif searches.tried[name]:
            outcome = "no victims found that would do"
        elif step.refusals:
            outcome = "no room" if name == "allocate" else "not allowed"
        else:
            outcome = "not applicable"
        found.append(Attempt(name, outcome, searched, cut_short))
    return tuple(found)
