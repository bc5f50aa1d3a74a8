"""jq programs of a Karta as grouping sees them: questions about an object, and answers that somebody else found.

Grouping is pure and programs may run for ever, so a grouper never runs one. It asks for the answers of all programs of
a Karta at once (`Workload.answers_of`); missing answers are computed by the caller of the grouper, in another process
(`jq_evaluator`), and the grouper is asked once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from bosket.api.core import Pod
from bosket.services.podgrouper.owner import Owner

Outcome = Literal["results", "failed", "invalid", "exceeded"]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a program ended on an object: with results, or with an error, which names the program.

    `failed`: on this object. `invalid`: it is no program, whatever the object. `exceeded`: it takes too much time or
    memory, or gives too many results.
    """

    outcome: Outcome
    results: tuple[Any, ...] = ()
    error: str = ""
    #: About the memory that it takes.
    characters: int = 0


class Programs(NamedTuple):
    """All programs of a Karta: those about the workload, and those about one of its pods."""

    of_workload: tuple[str, ...]
    of_pod: tuple[str, ...]


class Answers(NamedTuple):
    """The answers to `Programs`, by program."""

    of_workload: Mapping[str, Answer]
    of_pod: Mapping[str, Answer]

    @property
    def all(self) -> Sequence[Answer]:
        return (*self.of_workload.values(), *self.of_pod.values())


class ProgramRunner(Protocol):
    """Finds answers, without keeping the event loop from anything else."""

    async def answers(self, programs: Programs, workload: Owner, pod: Pod) -> Answers: ...
