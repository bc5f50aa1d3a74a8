"""What a check says: one thing that is wrong with one object, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from bosket.api.object import KubeObject

#: So many names stand in a sentence.
MOST_NAMED: Final = 3


class Severity(StrEnum):
    """How much it matters."""

    ERROR = "error"  #: something doesn't work
    WARNING = "warning"  #: works otherwise than somebody meant, or won't work for much longer
    INFO = "info"  #: worth knowing


_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    #: Names the rule that was broken, for machines: `queue-parent-missing`.
    code: str
    severity: Severity
    #: `Queue team-a`, `Pod ml/train-0`.
    object: str
    #: Where in the object, as kubectl names it; empty where it is the object as a whole.
    field: str
    #: A sentence that says what is wrong, and what comes of it.
    problem: str
    #: A sentence that says how to fix it.
    remedy: str
    #: A command that does so, or shows more; empty where there is none.
    command: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "severity": str(self.severity)}


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first, then by rule and object."""
    return sorted(set(findings), key=lambda each: (_RANK[each.severity], each.code, each.object, each.field))


def named(obj: KubeObject) -> str:
    """What findings call an object."""
    return f"{type(obj).__name__} {obj.key}"


def some(names: Iterable[object]) -> str:
    """The first of them: `a, b, c and 4 more`."""
    listed = [str(name) for name in names]
    shown = ", ".join(listed[:MOST_NAMED])
    return f"{shown} and {len(listed) - MOST_NAMED} more" if len(listed) > MOST_NAMED else shown


def counted(number: int, singular: str, plural: str = "") -> str:
    """`1 pod`, `2 pods`, `2 classes`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
