"""What earlier cycles bind the next one to, as plain data: for snapshot files, so that they decide the same again."""

from __future__ import annotations

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.nomination import Nomination
from bosket.scheduler.model.reservation import Reservation


class Commitments(msgspec.Struct, frozen=True):
    """Own decisions that the cluster may not show yet."""

    evicted: tuple[ObjectKey, ...] = ()  #: pods whose eviction isn't observed yet
    refused: tuple[tuple[ObjectKey, str], ...] = ()  #: pods whose eviction was refused, and by whom
    nominations: tuple[Nomination, ...] = msgspec.field(default=(), name="claims")
    #: jobs, and by which jobs they were preempted; a job that was passed over is listed as preempted by itself
    preempted_by: tuple[tuple[ObjectKey, tuple[ObjectKey, ...]], ...] = msgspec.field(default=(), name="takers")
    reservations: tuple[Reservation, ...] = ()
