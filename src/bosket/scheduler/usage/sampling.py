"""What queues hold now, as a sample for the built-in store."""

from __future__ import annotations

from bosket.api.quantity import InvalidQuantity
from bosket.scheduler.model.resource import FIXED_NAMES, NOTHING, SHARED, Shares, UncountableAmount, amounts_of, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.usage.history import Sample


def sample_of(snapshot: Snapshot, now: float) -> Sample:
    """Each queue with all below it, as KAI's queue controller counts; of nodes all that they have."""
    tree = snapshot.queues
    held = [NOTHING] * len(tree.queues)
    for name, use in sorted(snapshot.use.items()):
        row = tree.rows.get(name)
        for step in tree.paths[row] if row is not None else ():
            held[step] = plus(held[step], use.allocated)
    by_name = {queue.name: amount for queue, amount in zip(tree.queues, held, strict=True) if amount != NOTHING}
    return Sample(now, _capacity(snapshot), by_name)


def _capacity(snapshot: Snapshot) -> Shares:
    """As kube-state-metrics reports it: what nodes have, whether or not pods may use all of it."""
    total = NOTHING
    for node in snapshot.nodes.nodes:
        try:
            amounts = amounts_of(node.status.capacity or node.status.allocatable)
        except (InvalidQuantity, UncountableAmount):
            continue  # a node whose own account can't be read counts for nothing
        gpus, millicores, memory = (float(amounts.get(FIXED_NAMES[place], 0)) for place in SHARED)
        total = plus(total, (gpus, millicores, memory))
    return total
