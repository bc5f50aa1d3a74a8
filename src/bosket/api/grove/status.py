"""What the statuses of Grove's kinds have in common."""

from __future__ import annotations

from bosket.api.crd_marks import Timestamp
from bosket.api.object import Wire


class LastError(Wire):
    """Something that went wrong in the last reconciliation."""

    code: str
    description: str
    observedAt: Timestamp
