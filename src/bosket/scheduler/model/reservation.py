"""Reservations: nodes that are held for a large gang from a time on at which running jobs will have left them.

The plugin `backfill` makes them. Until it starts, a gang's nodes are given to others only as long as these leave in
time. A reservation binds the following cycles, so that it is part of snapshots, recordings and the scheduler's memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.job import Job


class HeldNode(msgspec.Struct, frozen=True, array_like=True):
    """What is held on one node."""

    node: str
    amounts: tuple[tuple[str, float], ...]  #: (resource name, amount), in the node table's units
    since: float  #: epoch seconds, when it was first held for the job


class Reservation(msgspec.Struct, frozen=True):
    """The nodes that are held for one job."""

    job: ObjectKey
    uid: str
    generation: int
    start: float  #: epoch seconds; by then, as far as run times are known, the nodes have room
    nodes: tuple[HeldNode, ...]


def standing(reservations: tuple[Reservation, ...], jobs: Mapping[ObjectKey, Job]) -> tuple[Reservation, ...]:
    """Those whose job is still there, unchanged, and waits; the very same tuple where that is true of all."""
    kept = tuple([each for each in reservations if _stands(each, jobs.get(each.job))])
    return reservations if len(kept) == len(reservations) else kept


def _stands(reservation: Reservation, job: Job | None) -> bool:
    if job is None or not job.has_pending:
        return False
    meta = job.group.metadata
    return (meta.uid, meta.generation) == (reservation.uid, reservation.generation)
