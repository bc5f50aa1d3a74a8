"""Replays of recorded cycles: the same input through `decide` once more, compared with what was decided then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposals, by_action
from bosket.scheduler.recording.flight.digest import decisions_digest
from bosket.scheduler.recording.flight.frames import Outcome
from bosket.scheduler.recording.flight.reader import FlightRecording, Moment


class Replayed(NamedTuple):
    """A cycle that was decided again."""

    moment: Moment
    decisions: Decisions
    then: Outcome  #: what came of it when it was recorded

    @property
    def is_same(self) -> bool:
        """Whether exactly the same was decided."""
        return decisions_digest(self.decisions) == self.then.digest


@dataclass(slots=True)
class Replay:
    """A recording that is replayed, and how far it has come."""

    replayed: int = 0
    left_out: int = 0  #: cycles that failed, were given up, or are without what the scheduler failed with

    def run(self, recording: FlightRecording, since: float, until: float) -> Iterator[Replayed]:
        """Each cycle from `since` to `until` as soon as it is clear what came of it then."""
        open_cycles: dict[tuple[str, int], tuple[Moment, Decisions]] = {}
        for each in recording.cycles(since, until):
            if isinstance(each, Moment):
                if each.cycle.quarantined:
                    self.left_out += 1
                else:
                    open_cycles[each.run, each.cycle.number] = each, decide_again(each)
                continue
            found = open_cycles.pop((each.run, each.outcome.number), None)
            if found is not None and each.outcome.digest:
                self.replayed += 1
                yield Replayed(*found, each.outcome)
            elif found is not None:
                self.left_out += 1
        self.left_out += len(open_cycles)


def decide_again(moment: Moment) -> Decisions:
    """What this version decides on what the cycle saw."""
    configuration, _ = known_part(moment.recorded.configuration)
    proposals: Proposals | None = None
    if moment.cycle.kind in ("place", "check"):
        proposals = by_action(tuple(moment.cycle.proposals or ()))
    return decide(moment.snapshot(), configuration, proposals=proposals)
