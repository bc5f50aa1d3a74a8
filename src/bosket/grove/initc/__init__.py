"""The program of Grove's init container: waits until the cliques that start first are ready, and ends.

A pod whose clique starts after others has it as its last init container, so its own containers start when enough pods
of those others are ready. `parent` is what to wait for, as the arguments say it; `program` waits.
"""

from bosket.grove.initc.parent import InvalidParent, Parent, ready_counts, waiting_for
from bosket.grove.initc.program import POD_INFO, NotInGang, OwnGang, own_gang, wait_for_parents

__all__ = [
    "POD_INFO",
    "InvalidParent",
    "NotInGang",
    "OwnGang",
    "Parent",
    "own_gang",
    "ready_counts",
    "wait_for_parents",
    "waiting_for",
]
