"""What goes wrong in the operator, as values with Grove's codes, and as they stand in a status."""

from __future__ import annotations

from bosket.api.grove import LastError
from bosket.api.time import format_time


class OperatorError(Exception):
    """A part of a reconciliation failed; the code says which, in Grove's words (ERR_SYNC_PODCLIQUE)."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description

    def as_last_error(self, now: float) -> LastError:
        return LastError(code=self.code, description=self.description, observedAt=format_time(now))
