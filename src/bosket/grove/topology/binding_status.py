"""The status of a ClusterTopologyBinding: for each scheduler whether its topology agrees, and in total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bosket.api.grove import ClusterTopologyBinding, ClusterTopologyBindingStatus, SchedulerTopologyStatus
from bosket.api.object import Condition
from bosket.api.time import format_time

DRIFT: Final = "SchedulerTopologyDrift"
DRIFT_DETECTED: Final = "TopologyDriftDetected"
IN_SYNC: Final = "TopologyInSync"
DRIFTED_MESSAGE: Final = "One or more scheduler backend topologies have drifted"
IN_SYNC_MESSAGE: Final = "All scheduler backend topologies are in sync"
_UNAVAILABLE_MESSAGE: Final = "One or more referenced scheduler backends are unavailable for topology management"


class Outcome(NamedTuple):
    """What came of looking at one scheduler's topology."""

    status: SchedulerTopologyStatus
    #: Nobody here speaks to that scheduler.
    is_unavailable: bool = False
    #: It couldn't be said; worth another try.
    has_failed: bool = False


def unavailable(scheduler: str, reference: str) -> Outcome:
    """The outcome for a scheduler that is bound, and that the operator doesn't know."""
    status = SchedulerTopologyStatus(
        schedulerName=scheduler,
        topologyReference=reference,
        inSync=False,
        message=f'scheduler backend "{scheduler}" is not available for topology management',
    )
    return Outcome(status, is_unavailable=True)


def status_of(binding: ClusterTopologyBinding, outcomes: Sequence[Outcome], now: float) -> ClusterTopologyBindingStatus:
    """The status after a look; the generation counts as observed only where nothing failed."""
    failed = any(each.has_failed for each in outcomes)
    generation = binding.metadata.generation
    return ClusterTopologyBindingStatus(
        observedGeneration=binding.status.observedGeneration if failed else generation,
        conditions=_conditions(binding, outcomes, now),
        schedulerTopologyStatuses=tuple(each.status for each in outcomes),
    )


def drift_of(status: ClusterTopologyBindingStatus) -> str:
    """True, False or Unknown; empty where nothing is said."""
    return next((each.status for each in status.conditions if each.type == DRIFT), "")


def _conditions(binding: ClusterTopologyBinding, outcomes: Sequence[Outcome], now: float) -> tuple[Condition, ...]:
    others = tuple(each for each in binding.status.conditions if each.type != DRIFT)
    if not outcomes:
        return others
    if any(each.is_unavailable for each in outcomes):
        status, reason, message = "Unknown", "TopologyNotFound", _UNAVAILABLE_MESSAGE
    elif all(each.status.inSync for each in outcomes):
        status, reason, message = "False", "InSync", IN_SYNC_MESSAGE
    else:
        status, reason, message = "True", "Drift", DRIFTED_MESSAGE
    before = next((each for each in binding.status.conditions if each.type == DRIFT), None)
    since = before.lastTransitionTime if before is not None and before.status == status else format_time(now)
    condition = Condition(
        type=DRIFT,
        status=status,
        lastTransitionTime=since,
        reason=reason,
        message=message,
        observedGeneration=binding.metadata.generation,
    )
    return (*others, condition)
