"""Who is next, and why: the order in which waiting jobs have their turn, for `bosket order`.

The order is the session's own (`JobsByQueue`). After each turn the job's queue is charged with what the job asks for,
as if it had got it: what is listed is the order in which jobs start as room comes free. What became of each job in the
cycle itself is told beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.answers.workload_name import shown_names
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.job_order import JobsByQueue
from bosket.scheduler.framework.job_state import JobState
from bosket.scheduler.framework.session import Session
from bosket.scheduler.framework.turns import queue_order
from bosket.scheduler.model.decisions import Decisions, Eviction, Pipeline
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.queue import QueueRow
from bosket.scheduler.model.resource import NOTHING
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins.proportion.order import RankRule, deciding_rule

Outcome = Literal["starts", "after evictions", "waits"]


class Turn(msgspec.Struct, frozen=True, rename="camel"):
    """One job's turn."""

    number: int  #: 1 is next
    namespace: str
    name: str  #: of the pod group
    shown: str  #: the workload's name
    queue: str
    priority: int
    age_seconds: float
    gpus: float  #: that its next pods ask for together
    outcome: Outcome  #: what became of it in this cycle
    why: str  #: it goes before the one that follows; empty for the last
    sentence: str  #: why it waits; empty where it doesn't


class OrderReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `bosket order --json` prints, and `GET /order` gives."""

    turns: tuple[Turn, ...]
    of: int  #: how many jobs there are in line


def turn_order(snapshot: Snapshot, configuration: Configuration, decisions: Decisions) -> tuple[Turn, ...]:
    """All jobs that may be scheduled and have pods left to place, the next one first."""
    session = open_session(snapshot, configuration)
    turns = JobsByQueue(session, session.jobs.pending())
    jobs: list[JobState] = []
    reasons: list[str] = []
    before: _Standing | None = None
    while (job := turns.pop()) is not None:
        if before is not None:
            reasons.append(before.reason_against(job))
        jobs.append(job)
        before = _Standing(session, job)
        session.queues.charge(job.queue_row, job.next_request(), preemptible=job.job.preemptible)
    answers = Sentences(snapshot, decisions).answers()
    shown = shown_names(job.group for job in snapshot.jobs.values())
    return tuple(
        Turn(
            number=number,
            namespace=state.job.key.namespace,
            name=state.job.key.name,
            shown=shown[state.job.group.key],
            queue=state.job.queue,
            priority=state.job.priority,
            age_seconds=max(0.0, snapshot.now - state.job.created),
            gpus=state.next_request()[0],
            outcome=_outcome(state.job, decisions),
            why=why,
            sentence=answers[state.job.key].sentence if state.job.key in answers else "",
        )
        for number, (state, why) in enumerate(zip(jobs, [*reasons, ""], strict=False), start=1)
    )


def _outcome(job: Job, decisions: Decisions) -> Outcome:
    places = [decisions.outcome[task] for task in job.tasks if task in decisions.outcome]
    if any(isinstance(each, Pipeline) for each in places):
        return "after evictions"
    return "starts" if any(not isinstance(each, Eviction) for each in places) else "waits"


class _Standing:
    """A job whose turn it is, with the accounts of queues as they are before it is served."""

    def __init__(self, session: Session, job: JobState) -> None:
        self._session, self._job = session, job
        self._accounts = list(session.queues.allocated)

    def reason_against(self, other: JobState) -> str:
        """Why the job goes before the other one, which has the next turn."""
        if self._job.queue_row == other.queue_row:
            return self._in_queue(other)
        mine, theirs = self._session.snapshot.queues.where_paths_part(self._job.queue_row, other.queue_row)
        return self._between_queues(mine, theirs, other)

    def _in_queue(self, other: JobState) -> str:
        mine, theirs = self._job.job, other.job
        if mine.priority != theirs.priority:
            return f"its priority is {mine.priority}, that of the next {theirs.priority}"
        if any(key(self._job) != key(other) for key in self._session.extensions.job_order):
            return "the next has its minimum already" if other.job.is_active else "a plugin puts it first"
        if mine.created != theirs.created:
            return "it has waited longer than the next"
        return "it is as old as the next, and its name is the smaller"

    def _between_queues(self, mine: QueueRow, theirs: QueueRow, other: JobState) -> str:
        session, tree = self._session, self._session.snapshot.queues
        first, second = tree.queues[mine], tree.queues[theirs]
        now, session.queues.allocated = session.queues.allocated, self._accounts
        try:
            order = queue_order(session)
            ranks = (
                order.rank(mine, self._job.next_request(), NOTHING),
                order.rank(theirs, other.next_request(), NOTHING),
            )
            shares = [
                _percent(session, row, job.next_request()[0]) for row, job in ((mine, self._job), (theirs, other))
            ]
        finally:
            session.queues.allocated = now
        rule = deciding_rule(*ranks) if len(ranks[0]) == 7 else None
        if rule is None:
            older = first.created != second.created
            reason = f"{first.name} is the older queue" if older else f"the name of {first.name} comes first"
            return f"{first.name} and {second.name} stand alike, and {reason}"
        return _in_words(rule, (first.name, second.name), (first.priority, second.priority), shares)


def _percent(session: Session, row: QueueRow, wanted: float) -> str:
    """How much of its fair share of GPUs the queue would hold with the job; empty where it has none."""
    share, held = session.queues.fair_share[row][0], session.queues.allocated[row][0] + wanted
    return f"{held / share:.0%}" if 0 < share < float("inf") else ""


def _in_words(rule: RankRule, names: tuple[str, str], priorities: tuple[int, int], shares: Sequence[str]) -> str:
    first, second = names
    match rule:
        case "above-share":
            return f"{second} holds more than its fair share of everything, {first} doesn't"
        case "above-quota":
            return f"{first} stays within its quota with it, {second} goes over its own with the next"
        case "priority":
            return f"queue priority of {first} is {priorities[0]}, that of {second} {priorities[1]}"
        case "nothing-allowed":
            return f"{second} would use something of which it may have nothing"
        case "share-with-job" | "share":
            if all(shares) and shares[0] != shares[1]:
                return f"{first} comes to {shares[0]} of its fair share with it, {second} to {shares[1]} with the next"
            return f"{first} would hold a smaller part of its share with it than {second} with the next"
        case "bound":
            return f"{first} may have less than {second}"
