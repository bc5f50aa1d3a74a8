"""PreemptionHistory: which job was preempted by which, so that two jobs don't preempt each other in turn.

A job may not preempt a job that preempted it, nor one that preempted that one, and so on: "was preempted by" has no
cycles. As every job has a finite number of tasks, evictions then come to an end. An entry counts for
`REMEMBERED_SECONDS`, and twice as long each time that the preempted job preempts another one and is preempted again.
Entries are dropped early when queues, nodes, priorities or one of the two jobs change, because the other order may be
right by then. Where fair shares depend on past usage, queues are meant to take turns: entries then always count for
`REMEMBERED_SECONDS`.

Jobs that were passed over (`Decisions.passed_over`) are remembered for the same time and dropped for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import PreemptedBy
from bosket.scheduler.state.own.memory import KeptPreemption

REMEMBERED_SECONDS, LONGEST_SECONDS = 600.0, 86400.0


class PreemptionHistory:
    """Preemptions and passed-over jobs that still count. Written after each cycle, read for each snapshot."""

    def __init__(self) -> None:
        self._until: dict[ObjectKey, dict[ObjectKey, float]] = {}  # preempted job → preemptor → end of the entry
        self._passed_over_until: dict[ObjectKey, float] = {}  # job → end of the entry
        self._rounds: dict[ObjectKey, tuple[int, float]] = {}  # job → how often it came back and went; and when last
        self._came_back: set[ObjectKey] = set()  # jobs that preempted another one after they were preempted
        self._preempted_by: PreemptedBy = {}
        self._passed_over: frozenset[ObjectKey] = frozenset()

    def record(self, decisions: Decisions, now: float, *, usage_based: bool = False) -> None:
        """Adds the preemptions of a cycle, and the jobs that the cycle passed over.

        Preemptions that the same cycle undid are added too: two jobs could preempt each other in every cycle otherwise.
        `usage_based`: whether fair shares depend on past usage.
        """
        pairs = {(each.job.key, each.preemptor.key) for each in decisions.evictions if each.preemptor is not None}
        for job in decisions.passed_over:
            self._passed_over_until[job.key] = now + REMEMBERED_SECONDS
        for victim in sorted({victim for victim, _ in pairs}):
            self._count_round(victim, now)
        for victim, preemptor in sorted(pairs):
            self._until.setdefault(victim, {})[preemptor] = now + self._remembered_seconds(victim)
            if preemptor in self._rounds and not usage_based:
                self._came_back.add(preemptor)
        if pairs or decisions.passed_over:
            self._renew()

    def preempted_by(self, now: float) -> PreemptedBy:
        """Job → jobs that preempted it; the same object while nothing changed."""
        self._expire(now)
        return self._preempted_by

    def passed_over(self, now: float) -> frozenset[ObjectKey]:
        """Jobs that were passed over; the same object while nothing changed."""
        self._expire(now)
        return self._passed_over

    def forget_job(self, job: ObjectKey) -> None:
        """Drops the entries of a job that is deleted or changed."""
        self._rounds.pop(job, None)
        self._came_back.discard(job)
        known = self._until.pop(job, None) is not None
        known = self._passed_over_until.pop(job, None) is not None or known
        for preemptors in self._until.values():
            known = preemptors.pop(job, None) is not None or known
        if known:
            self._renew()

    def forget_all(self) -> None:
        """Drops all entries, because queues, nodes, priorities or topologies changed."""
        if self._until or self._passed_over_until:
            self._until.clear()
            self._passed_over_until.clear()
            self._renew()

    def entries(self, now: float) -> tuple[KeptPreemption, ...]:
        """The entries that count at `now`, in order of their jobs."""
        preemptions = (
            KeptPreemption(victim, preemptor, until)
            for victim, preemptors in self._until.items()
            for preemptor, until in preemptors.items()
            if until > now
        )
        passed_over = (KeptPreemption(job, job, until) for job, until in self._passed_over_until.items() if until > now)
        return tuple(sorted((*preemptions, *passed_over), key=_jobs_of))

    def rounds(self, now: float) -> dict[ObjectKey, tuple[int, float, bool]]:
        """Job → how often it came back and was preempted again, the time of its last preemption, and whether it has
        preempted another job since. Only jobs whose next preemption would count on from there."""
        return {
            job: (rounds, last, job in self._came_back)
            for job, (rounds, last) in self._rounds.items()
            if now - last <= 2 * self._remembered_seconds(job)
        }

    def restore(self, entries: Iterable[KeptPreemption], rounds: Mapping[ObjectKey, tuple[int, float, bool]]) -> None:
        """Replaces all entries by those of another process."""
        self._until.clear()
        self._passed_over_until.clear()
        for each in entries:
            self._put(each.victim, each.preemptor, each.until)
        self._rounds = {job: (count, last) for job, (count, last, _) in rounds.items() if count}
        self._came_back = {job for job, (_, _, came_back) in rounds.items() if came_back}
        self._renew()

    def put(self, pairs: Iterable[tuple[ObjectKey, Iterable[ObjectKey]]], now: float) -> None:
        """Takes over the entries of a recording."""
        for victim, preemptors in pairs:
            self._until.pop(victim, None)
            for preemptor in preemptors:
                self._put(victim, preemptor, now + REMEMBERED_SECONDS)
        self._renew()

    def _put(self, victim: ObjectKey, preemptor: ObjectKey, until: float) -> None:
        """`preemptor` is the job itself where the job was passed over: that is how files say it."""
        if victim == preemptor:
            self._passed_over_until[victim] = until
        else:
            self._until.setdefault(victim, {})[preemptor] = until

    def _expire(self, now: float) -> None:
        over = [
            (victim, preemptor)
            for victim, preemptors in self._until.items()
            for preemptor, until in preemptors.items()
            if until <= now
        ]
        for victim, preemptor in over:
            del self._until[victim][preemptor]
        over_jobs = [job for job, until in self._passed_over_until.items() if until <= now]
        for job in over_jobs:
            del self._passed_over_until[job]
        if over or over_jobs:
            self._renew()

    def _count_round(self, job: ObjectKey, now: float) -> None:
        rounds, last = self._rounds.get(job, (0, now))
        if now - last > 2 * self._remembered_seconds(job):
            rounds = 0
        if job in self._came_back or not rounds:
            rounds += 1
        self._came_back.discard(job)
        self._rounds[job] = (rounds, now)

    def _remembered_seconds(self, job: ObjectKey) -> float:
        rounds, _ = self._rounds.get(job, (1, 0.0))
        return min(LONGEST_SECONDS, REMEMBERED_SECONDS * 2.0 ** min(rounds - 1, 10))

    def _renew(self) -> None:
        self._preempted_by = {victim: frozenset(preemptors) for victim, preemptors in self._until.items() if preemptors}
        self._passed_over = frozenset(self._passed_over_until)


def _jobs_of(entry: KeptPreemption) -> tuple[ObjectKey, ObjectKey]:
    return entry.victim, entry.preemptor
