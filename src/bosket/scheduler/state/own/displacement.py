"""Who took whose place, so that nobody takes it back in turn.

A job that was evicted for another may not have that one evicted in its turn, nor one that took the place of that one,
and so on: "took the place of" never runs in a circle. As every job has so many tasks and no more, evictions then come
to an end. A gang that got nothing, but held others up for a cycle, counts as if it had taken its own place, and
so does one that KAI's estimates of what domains can hold refused: these are then no longer followed for it. What is
remembered holds for `CALM_SECONDS`, twice as long each time that the job took another's place in
between and was evicted again; and no longer than queues, nodes, priorities and both jobs stay as they are, because a
changed situation may well turn the right around. Where queues share by what they used in the past, rights turn with
time, and queues are meant to take turns: there it is `CALM_SECONDS` every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bosket.api.object import ObjectKey
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.state.own.memory import KeptDisplacement

CALM_SECONDS, LONGEST_SECONDS = 600.0, 86400.0

Takers = Mapping[ObjectKey, frozenset[ObjectKey]]  #: job → who took its place


class Displacements:
    """What is remembered of evictions between jobs."""

    def __init__(self) -> None:
        self._until: dict[ObjectKey, dict[ObjectKey, float]] = {}  # job → who took its place → till when that counts
        self._rounds: dict[ObjectKey, tuple[int, float]] = {}  # job → how often it came back and went; and when last
        self._came_back: set[ObjectKey] = set()  # jobs that took a place after they were evicted
        self._view: Takers = {}

    def note(self, decisions: Decisions, now: float, *, rights_turn: bool = False) -> None:
        """Also of places that were lost in the cycle that gave them: otherwise two jobs could go on like that.

        `rights_turn`: whether shares depend on the past.
        """
        pairs = {(each.job.key, each.preemptor.key) for each in decisions.evictions if each.preemptor is not None}
        for job in decisions.passed_over:
            self._until.setdefault(job.key, {})[job.key] = now + CALM_SECONDS
        for victim in sorted({victim for victim, _ in pairs}):
            self._count_round(victim, now)
        for victim, taker in sorted(pairs):
            self._until.setdefault(victim, {})[taker] = now + self._calm_seconds(victim)
            if taker in self._rounds and not rights_turn:
                self._came_back.add(taker)
        if pairs or decisions.passed_over:
            self._renew()

    def takers(self, now: float) -> Takers:
        """The same object while nothing changed."""
        over = [
            (victim, taker) for victim, takers in self._until.items() for taker, until in takers.items() if until <= now
        ]
        for victim, taker in over:
            del self._until[victim][taker]
        if over:
            self._renew()
        return self._view

    def forget_job(self, job: ObjectKey) -> None:
        """The job is gone, or isn't what it was."""
        self._rounds.pop(job, None)
        self._came_back.discard(job)
        known = self._until.pop(job, None) is not None
        for takers in self._until.values():
            known = takers.pop(job, None) is not None or known
        if known:
            self._renew()

    def forget_all(self) -> None:
        """The situation is another one."""
        if self._until:
            self._until.clear()
            self._renew()

    def entries(self, now: float) -> tuple[KeptDisplacement, ...]:
        """All that count now, in order."""
        return tuple(
            KeptDisplacement(victim, taker, until)
            for victim, takers in sorted(self._until.items())
            for taker, until in sorted(takers.items())
            if until > now
        )

    def rounds(self, now: float) -> dict[ObjectKey, tuple[int, float, bool]]:
        """Job → how often it came back and went, when it last went, whether it took a place since; as far as the next
        eviction of the job would count on."""
        return {
            job: (rounds, last, job in self._came_back)
            for job, (rounds, last) in self._rounds.items()
            if now - last <= 2 * self._calm_seconds(job)
        }

    def restore(self, entries: Iterable[KeptDisplacement], rounds: Mapping[ObjectKey, tuple[int, float, bool]]) -> None:
        """Takes over what another process knew, instead of what is known here."""
        self._until.clear()
        for each in entries:
            self._until.setdefault(each.victim, {})[each.taker] = each.until
        self._rounds = {job: (count, last) for job, (count, last, _) in rounds.items() if count}
        self._came_back = {job for job, (_, _, came_back) in rounds.items() if came_back}
        self._renew()

    def put(self, takers: Takers, now: float) -> None:
        """As a recording has it."""
        for victim, jobs in takers.items():
            self._until[victim] = dict.fromkeys(jobs, now + CALM_SECONDS)
        self._renew()

    def _count_round(self, job: ObjectKey, now: float) -> None:
        rounds, last = self._rounds.get(job, (0, now))
        if now - last > 2 * self._calm_seconds(job):
            rounds = 0
        if job in self._came_back or not rounds:
            rounds += 1
        self._came_back.discard(job)
        self._rounds[job] = (rounds, now)

    def _calm_seconds(self, job: ObjectKey) -> float:
        rounds, _ = self._rounds.get(job, (1, 0.0))
        return min(LONGEST_SECONDS, CALM_SECONDS * 2.0 ** min(rounds - 1, 10))

    def _renew(self) -> None:
        self._view = {victim: frozenset(takers) for victim, takers in self._until.items() if takers}
