"""The ratchet: cases that fail stand in a file, by id, one a line; the list may only get shorter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.verdict import Verdict

ALLOWED_FAILURES = Path(__file__).with_name("allowed_failures.txt")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a run says that the file doesn't."""

    unexpected: tuple[Verdict, ...]  #: failed, though not in the file
    outdated: tuple[str, ...]  #: in the file, though it passes now

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.outdated


def read_allowed(file: Path) -> frozenset[str]:
    return frozenset(line for line in file.read_text().splitlines() if line and not line.startswith("#"))


def compare(verdicts: Iterable[Verdict], allowed: frozenset[str]) -> Comparison:
    unexpected, outdated = [], []
    for verdict in verdicts:
        if verdict.failed and verdict.case not in allowed:
            unexpected.append(verdict)
        elif verdict.outcome.good and verdict.case in allowed:
            outdated.append(verdict.case)
    return Comparison(tuple(unexpected), tuple(outdated))
