"""Who holds what a job needs, and why nobody evicts them for it."""

from __future__ import annotations

from collections.abc import Iterable

from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.answers.candidates.room import departures
from bosket.scheduler.answers.explanation import Blocker
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.answers.workload_name import workload_of
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.reason import DelayNotElapsed, OverCapacity
from bosket.scheduler.model.resource import NOTHING, plus
from bosket.scheduler.model.task import ACTIVE_USED, TaskStatus

#: So many jobs are named.
MOST_BLOCKERS = 5


def blockers(trial: Trial, session: Session) -> tuple[Blocker, ...]:
    """The jobs whose end would help the job most, with the first rule that keeps each of them from being evicted.

    `session`: opened on the trial's snapshot.
    """
    snapshot = trial.snapshot
    state = session.jobs.state_of(trial.job)
    found: list[Blocker] = []
    for _, pods in trial.ask(departures):
        if len(found) == MOST_BLOCKERS:
            break
        task = next((each for each in snapshot.residents.get(pods[0].spec.nodeName, ()) if each.pod is pods[0]), None)
        other = snapshot.jobs.get(task.group) if task is not None and task.group is not None else None
        key = other.key if other is not None else pods[0].key
        if task is None:
            continue  # it only waits, too
        if other is None:
            amounts = task.pod_class.charge
            found.append(
                Blocker(key.namespace, key.name, "", _amounts(amounts), "it isn't scheduled by this scheduler")
            )
            continue
        held = NOTHING
        for each in other.tasks:
            if each.status in ACTIVE_USED:
                held = plus(held, each.pod_class.charge)
        if held != NOTHING:
            why = _why(trial, session, state, other)
            found.append(
                Blocker(key.namespace, key.name, other.queue, _amounts(held), why, "/".join(workload_of(other.group)))
            )
    return tuple(found)


def _why(trial: Trial, session: Session, mine: JobState | None, other: Job) -> str:
    """The first rule that keeps the job from being evicted for the other."""
    job = trial.job
    theirs = session.jobs.state_of(other)
    active = [task for task in other.tasks if task.status in ACTIVE_USED]
    if active and all(task.status in (TaskStatus.RELEASING, TaskStatus.STUCK_IN_RELEASING) for task in active):
        return "it is on its way out"
    if not other.preemptible:
        return "it isn't preemptible"
    if mine is None or theirs is None:
        return "the job's queue can't have anybody evicted"
    reasons = trial.waiting.reasons if trial.waiting is not None else ()
    over = next((each for each in reasons if isinstance(each, OverCapacity)), None)
    if other.queue == job.queue:
        if other.priority >= job.priority:
            return f"its priority {other.priority} isn't below {job.priority}"
        filters: Iterable[object] = session.extensions.preempt_filters
    else:
        if over is not None:
            return f"that would give queue {over.queue} no room"
        if not session.extensions.reclaim_rights or not all(right(mine) for right in session.extensions.reclaim_rights):
            return f"queue {job.queue} would then hold more than its fair share"
        filters = session.extensions.reclaim_filters
    delay = next((each for each in reasons if isinstance(each, DelayNotElapsed)), None)
    if delay is not None:
        return f"the job may not have anybody evicted before {format_time(delay.ends)} (preemptionDelay)"
    refused = session.limits.objection(theirs.active_tasks())
    if refused is not None:
        return f"{refused.by} forbids it"
    with session.limits.noting() as obstacles:
        for each in filters:
            if not each.takes_from(mine, theirs.queue_row) or (each.by_job and not each.takes(mine, theirs)):  # type: ignore[attr-defined]
                if obstacles.protected_until < float("inf"):
                    return f"its minimum run time protects it until {format_time(obstacles.protected_until)}"
                return "the rules of its queue protect it"
    if other.queue != job.queue and (share := _within_share(session, theirs)):
        return share
    if ObjectKey(*other.key) in session.outcome.successors(job):
        return "it took this job's place in a recent cycle"
    return "evicting it wouldn't make room for the whole job, or isn't fair to its queue"


def _within_share(session: Session, theirs: JobState) -> str:
    """Says so where the other's queue holds no more than its fair share."""
    tree, row = session.snapshot.queues, theirs.queue_row
    held, share = session.queues.allocated[row], session.queues.fair_share[row]
    if held[0] <= share[0] + 1e-6:
        return f"queue {tree.queues[row].name} is within its fair share ({held[0]:g} of {share[0]:.4g} GPUs)"
    return ""


def _amounts(charge: tuple[float, float, float]) -> dict[str, float]:
    gpus, millicores, memory = charge
    named = {"gpu": gpus, "cpu": millicores / 1000, "memory": round(memory / 2**30, 3)}
    return {name: amount for name, amount in named.items() if amount}
