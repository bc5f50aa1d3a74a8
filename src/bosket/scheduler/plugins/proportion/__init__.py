"""Plugin proportion: capacity checks, fair shares and the order of queues.

Arguments: `kValue`, how strongly past usage lowers today's share (default 1; at least 0), and
`relcaimerSaturationMultiplier` (KAI's spelling), how much further below its share than the other side a reclaimer must
stay (default 1; at least 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins.proportion.capacity import Capacity
from bosket.scheduler.plugins.proportion.order import QueueRanks
from bosket.scheduler.plugins.proportion.reclaim import Reclaim
from bosket.scheduler.plugins.proportion.share import fair_shares


class Proportion:
    """The plugin."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        self._k = max(0.0, _number(arguments, "kValue"))
        self._multiplier = max(1.0, _number(arguments, "relcaimerSaturationMultiplier"))

    def open(self, session: Session) -> None:
        session.queues.fair_share = fair_shares(session.snapshot, self._k)
        session.extensions.capacity_checks.add(Capacity(session).check)
        session.extensions.queue_order.add(QueueRanks(session))
        reclaim = Reclaim(session, self._multiplier)
        session.extensions.reclaim_rights.add(reclaim.may_reclaim)
        session.extensions.reclaim_filters.add(reclaim)
        session.extensions.reclaim_validators.add(reclaim.is_just)


def _number(arguments: Mapping[str, str], name: str) -> float:
    try:
        value = float(arguments.get(name, "1.0"))
    except ValueError as error:
        raise ConfigurationError(f"plugin proportion: {name} is not a number: {error}") from error
    if not math.isfinite(value):
        raise ConfigurationError(f"plugin proportion: {name} is {value}, it must be a finite number")
    return value
