"""The search for changes that start a job: candidates are screened cheaply, sized by bisecting, and proved by `decide`.

A change counts only if the scheduler's own decision on the patched snapshot starts the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from bosket.scheduler.answers.candidate import Candidate, Patches
from bosket.scheduler.answers.candidates.room import FREE_ROOM, WAIT, of_room
from bosket.scheduler.answers.change import ChangeError
from bosket.scheduler.answers.explanation import Change, Outcome
from bosket.scheduler.answers.patching import command
from bosket.scheduler.answers.trial import Start, Trial, alone, start_of
from bosket.scheduler.decide import decide

#: So many changes are offered.
MOST_CHANGES = 5
#: Whole cycles that take longer aren't decided to find out a size, only to prove it.
QUICK_SECONDS = 0.1


class OutOfTime(Exception):
    """The time for the search is used up."""


@dataclass
class Budget:
    """Seconds of CPU that a search may take. `clock` tells how many were used so far in this process."""

    seconds: float
    clock: Callable[[], float]
    began: float  #: what the clock told when the question was put

    @property
    def used(self) -> float:
        return self.clock() - self.began

    def check(self, expected: float = 0.0) -> None:
        """Raises OutOfTime where less time is left than what comes next is expected to take."""
        if self.used + expected > self.seconds:
            raise OutOfTime


class ChangeSearch:
    """Finds changes for one job."""

    def __init__(self, trial: Trial, budget: Budget) -> None:
        self._trial, self._cluster, self._key, self._budget = trial, trial.cluster, trial.key, budget
        #: whether the job would start if it were the only one that waits: then it is the others that a change is about
        self._is_about_order = trial.start_alone is not None
        # Seconds that the dearest whole cycle took so far. Where the order matters, one was decided for the verdict,
        # and took nearly all of the time until now.
        self._whole_cycle = budget.used if self._is_about_order and trial.decided is None else 0.0

    def find(self, candidates: Iterable[Candidate]) -> tuple[tuple[Change, ...], bool]:
        """The changes, in the order of the candidates, one of each kind, and whether all candidates were looked at."""
        ordered = list(candidates)
        found: dict[int, Change] = {}  # by place in that order
        complete = True
        try:
            # What is dear to try comes last: there may be no time for it.
            for place, candidate in sorted(enumerate(ordered), key=lambda each: each[1].from_below):
                kinds = {each.kind for each in found.values()}
                if candidate.kind in kinds or (candidate.kind == WAIT and FREE_ROOM in kinds):
                    continue
                if len(found) == MOST_CHANGES:
                    break
                change = self._prove(candidate)
                if change is not None:
                    found[place] = change
        except OutOfTime:
            complete = False
        return tuple(found[place] for place in sorted(found)), complete

    def _prove(self, candidate: Candidate) -> Change | None:
        """The smallest size of the candidate that starts the job, with the proof; None when none does."""
        if not self._trial.starts_in_emptied and not self._starts_in_emptied(candidate.patch(candidate.most)):
            return None
        size = self._smallest(candidate, self._may_start)
        if size is None:
            return self._with_room(candidate)
        start = self._start(candidate.patch(size))
        if start is None and size < candidate.most:
            # Others take what the job could have had: it takes more than the job alone would need.
            is_quick = self._whole_cycle < QUICK_SECONDS
            size = self._smallest(candidate, self._starts if is_quick else self._has_turn, size)
            start = self._start(candidate.patch(size)) if size is not None else None
        if start is None or size is None:
            return self._with_room(candidate)
        step_less_fails: bool | None = None
        if candidate.is_number:
            while size > 1 and (smaller := self._start(candidate.patch(size - 1))) is not None:
                size, start = size - 1, smaller
            step_less_fails = True  # a step less than the first is the cluster as it is, in which the job waits
        patch = candidate.patch(size)
        return self._change(candidate, candidate.sentence(size), patch, start, step_less_fails)

    def _with_room(self, candidate: Candidate) -> Change | None:
        """The change of a job that could never start, together with the jobs that must have ended then."""
        if self._trial.starts_in_emptied:
            return None
        size = self._bisected(candidate.most, lambda size: self._starts_in_emptied(candidate.patch(size)))
        room = next(iter([*of_room(self._trial)][-1:]), None)
        if size is None or room is None:
            return None
        change = candidate.patch(size)
        with self._cluster.changed(change):
            count = self._from_below(room, self._starts)
        start = self._start((*change, *room.patch(count))) if count is not None else None
        if count is None or start is None:
            return None
        # A step less of the change can't start even where nobody else is.
        sentence = f"{candidate.sentence(size)}, and {room.sentence(count)}"
        less = True if candidate.is_number else None
        found = self._change(candidate, sentence, change, start, less)
        return msgspec.structs.replace(found, patch=(*change, *room.patch(count)))

    def _change(
        self, candidate: Candidate, sentence: str, patch: Patches, start: Start, step_less_fails: bool | None
    ) -> Change:
        return Change(
            actor=candidate.actor,
            kind=candidate.kind,
            sentence=sentence,
            patch=patch,
            then=Outcome("after-evictions" if start.waits else "now", dict(start.nodes), start.evicts),
            verified=True,
            stepLessFails=step_less_fails,
            commands=tuple(map(command, patch)) if candidate.has_commands else (),
            made_in=self._owner() if candidate.in_template else "",
        )

    def _owner(self) -> str:
        """What makes the job's pods, where something does."""
        owners = [
            f"{each.kind} {each.name}"
            for task in self._trial.job.tasks
            for each in task.pod.metadata.ownerReferences
            if each.controller
        ]
        return owners[0] if owners else ""

    def _smallest(self, candidate: Candidate, starts: Callable[[Patches], bool], fails: int = 0) -> int | None:
        """A size above `fails` that does, the next smaller one of which was tried and doesn't; None when none does."""
        if candidate.from_below:
            return self._from_below(candidate, starts, fails)
        return self._bisected(candidate.most, lambda size: starts(candidate.patch(size)), fails)

    @staticmethod
    def _bisected(most: int, starts: Callable[[int], bool], fails: int = 0) -> int | None:
        if not starts(most):
            return None
        while most - fails > 1:
            middle = (most + fails) // 2
            if starts(middle):
                most = middle
            else:
                fails = middle
        return most

    def _from_below(self, candidate: Candidate, starts: Callable[[Patches], bool], fails: int = 0) -> int | None:
        """The same, trying small sizes first, in steps that double. What failed stays in place meanwhile, and only the
        rest is tried on top of it: a larger size begins with the patches of a smaller one."""
        most = candidate.most
        with ExitStack() as in_place:

            def beyond(size: int) -> Patches:
                return candidate.patch(size)[len(candidate.patch(fails)) :]

            def keep(size: int) -> None:
                nonlocal fails
                in_place.enter_context(self._cluster.changed(beyond(size)))
                fails = size

            if fails:
                in_place.enter_context(self._cluster.changed(candidate.patch(fails)))
            step = 1
            while fails + step < most and not starts(beyond(fails + step)):
                keep(fails + step)
                step *= 2
            if fails + step < most:
                most = fails + step
            elif not starts(beyond(most)):
                return None
            while most - fails > 1:
                middle = (most + fails) // 2
                if starts(beyond(middle)):
                    most = middle
                else:
                    keep(middle)
        return most

    def _starts_in_emptied(self, patches: Patches) -> bool:
        self._budget.check()
        cluster = self._trial.emptied
        try:
            with cluster.changed(patches) as snapshot:
                return start_of(cluster.decide(snapshot), self._key) is not None
        except ChangeError:
            return False  # a change of what isn't there any more, and so isn't in the way

    def _may_start(self, patches: Patches) -> bool:
        """Whether the job could start if it were the only one that waits."""
        self._budget.check()
        if self._is_about_order:
            return self._has_turn(patches) or (self._whole_cycle < QUICK_SECONDS and self._starts(patches))
        with self._cluster.changed(patches) as snapshot:
            return start_of(alone(self._cluster, snapshot, self._key), self._key) is not None

    def _has_turn(self, patches: Patches) -> bool:
        """Whether the job gets a free place in its turn; that others may be evicted for it isn't looked at."""
        with self._cluster.changed(patches) as snapshot:
            placing = decide(snapshot, self._cluster.configuration, proposals={})
        return start_of(placing, self._key) is not None

    def _starts(self, patches: Patches) -> bool:
        return self._start(patches) is not None

    def _start(self, patches: Patches) -> Start | None:
        """How the next cycle starts the job after the change."""
        self._budget.check()
        cluster = self._cluster
        with cluster.changed(patches) as snapshot:
            if self._key not in snapshot.jobs:
                return None
            placing = decide(snapshot, cluster.configuration, proposals={})
            if (
                start_of(placing, self._key) is None
                and start_of(alone(cluster, snapshot, self._key), self._key) is None
            ):
                return None  # the whole cycle would search on behalf of everybody, and find nothing for the job
            return start_of(cluster.decide(snapshot), self._key)
