"""What happens to one object, or to all other objects of a kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outlook(StrEnum):
    """What becomes of it."""

    ACTION = "needs action"  #: somebody has to do something first
    CHANGES = "changes"  #: is changed, or means something else, without anybody's doing
    KEEP = "keep"  #: stays as it is, and means the same


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a plan."""

    outlook: Outlook
    #: `Queue team-a`, `12 Pods`.
    object: str
    #: Where in the object; empty where it is the object as a whole.
    field: str
    #: A sentence that says what becomes of it, and why.
    sentence: str
    #: What to do; only where something needs to be done.
    action: str = ""
    command: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "outlook": str(self.outlook)}
