"""What an administrator can say about the binder; the fields are KAI's flags."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the binder."""

    max_concurrent_reconciles: int = 10
    #: Pauses after errors that are not a request's fault (no answer from the API server, conflicts).
    rate_limiter_base_delay_seconds: float = 1.0
    #: The longest pause between two attempts, of either sort.
    rate_limiter_max_delay_seconds: float = 60.0
