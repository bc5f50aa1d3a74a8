"""Changes that might start a job, the cheapest first: what its owner can do, then the queue's administrator, then the
cluster's, then time."""

from __future__ import annotations

from collections.abc import Iterator

from bosket.scheduler.answers.candidate import Candidate
from bosket.scheduler.answers.candidates.gang import of_gang
from bosket.scheduler.answers.candidates.node import of_nodes
from bosket.scheduler.answers.candidates.owner_fields import of_owner_fields
from bosket.scheduler.answers.candidates.placement import of_placement
from bosket.scheduler.answers.candidates.queue import of_queues
from bosket.scheduler.answers.candidates.room import of_room
from bosket.scheduler.answers.explanation import Actor
from bosket.scheduler.answers.trial import Trial

#: Who is asked first.
_ORDER: tuple[Actor, ...] = ("user", "queue-admin", "cluster-admin", "time")


def candidates(trial: Trial) -> Iterator[Candidate]:
    """All candidates for the job, in the order in which they are to be tried."""
    sources = [of_gang, of_owner_fields, of_placement, of_queues, of_nodes]
    if trial.starts_in_emptied:
        sources.append(of_room)  # otherwise it isn't the others that are in the way
    found = [candidate for source in sources for candidate in source(trial)]
    for actor in _ORDER:
        yield from (candidate for candidate in found if candidate.actor == actor)
