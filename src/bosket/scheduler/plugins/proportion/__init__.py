"""Queues: how much a job may take, what each queue may count on, and whose turn it is.

Argument `kValue`: how strongly use in the past lowers the share of today (default 1; at least 0).
"""

from __future__ import annotations

from collections.abc import Mapping

from bosket.scheduler.framework.configuration import ConfigurationError
from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins.proportion.capacity import Capacity
from bosket.scheduler.plugins.proportion.order import QueueRanks
from bosket.scheduler.plugins.proportion.share import fair_shares


class Proportion:
    """Capacity checks, fair shares and queue order."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        try:
            self._k = max(0.0, float(arguments.get("kValue", "1.0")))
        except ValueError as error:
            raise ConfigurationError(f"plugin proportion: kValue is not a number: {error}") from error

    def open(self, session: Session) -> None:
        session.fair_share = fair_shares(session.snapshot, self._k)
        session.capacity_checks.add(Capacity(session).check)
        session.queue_order.add(QueueRanks(session))
