"""What came of a recorded case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How our answer relates to the recorded one."""

    PASSED = "passed"
    FAILED = "failed"
    SAME = "same"
    BETTER = "better"  #: other decisions, which everybody is at least as well served by
    DIFFERENT = "different"
    NOT_RUN = "not run"  #: of a kind that we don't have yet

    @property
    def good(self) -> bool:
        return self in (Outcome.PASSED, Outcome.SAME, Outcome.BETTER)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case's outcome, with what differs."""

    case: str
    group: str
    outcome: Outcome
    differences: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.DIFFERENT)
