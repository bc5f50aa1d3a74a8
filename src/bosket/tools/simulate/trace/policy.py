"""Policies of a trace's simulation, each a configuration of the scheduler.

greedy  the scheduler's default for jobs that nobody evicts: in order of age, whoever fits is placed
fifo    strict order: as long as the oldest job of a queue waits, nobody behind it is placed
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from bosket.scheduler.actions.allocate import ALLOCATE
from bosket.scheduler.configuration.configuration import Configuration

Policy = Literal["greedy", "fifo"]
POLICIES: Final[tuple[str, ...]] = get_args(Policy)


def configuration_of(policy: Policy) -> Configuration:
    """What the scheduler is configured with. Nobody is evicted: a trace says nothing about what that would cost."""
    depth = {ALLOCATE: 1} if policy == "fifo" else {}
    return Configuration(actions=(ALLOCATE,), queue_depth=depth)
