"""What the cluster has to divide, what queues want of it, and the fair shares that follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.framework.ledger import SHARED_PLACES
from bosket.scheduler.kernel.fair_share import Claims, divide_tree
from bosket.scheduler.model.node import refuses_pods
from bosket.scheduler.model.queue import QueueTree
from bosket.scheduler.model.resource import Vector
from bosket.scheduler.snapshot.snapshot import Snapshot

Shares = NDArray[np.float64]  #: (queue, resource): GPUs, millicores, bytes


def cluster_total(snapshot: Snapshot) -> Vector:
    """What nodes that take pods have, less what pods of other schedulers hold there."""
    nodes = snapshot.nodes
    taking = np.array([refuses_pods(node) is None for node in nodes.nodes], dtype=bool)
    ours = nodes.allocatable[SHARED_PLACES] - nodes.foreign[SHARED_PLACES]
    return np.asarray(ours[:, taking].sum(axis=1))


def fair_shares(snapshot: Snapshot, k: float) -> Shares:
    """The fair share of every queue, resource by resource."""
    tree = snapshot.queues
    count = len(tree.queues)
    total = cluster_total(snapshot)
    shares = np.zeros((count, len(SHARED_PLACES)))
    if not count:
        return shares
    requested = _requested(snapshot)
    priority = np.array([queue.priority for queue in tree.queues])
    rank = _rank(tree)
    for resource in range(len(SHARED_PLACES)):
        claims = Claims(
            quota=np.array([queue.quota[resource] for queue in tree.queues]),
            limit=np.array([queue.limit[resource] for queue in tree.queues]),
            weight=np.array([queue.weight[resource] for queue in tree.queues]),
            request=requested[:, resource],
            usage=np.zeros(count),
            priority=priority,
            rank=rank,
        )
        shares[:, resource] = divide_tree(float(total[resource]), claims, tree.roots, tree.children, k)
    return shares


def _requested(snapshot: Snapshot) -> Shares:
    """What jobs hold and wait for, in their queue and all above it."""
    tree = snapshot.queues
    requested = np.zeros((len(tree.queues), len(SHARED_PLACES)))
    for name, use in sorted(snapshot.use.items()):
        row = tree.rows.get(name)
        if row is not None:
            requested[tree.paths[row]] += use.requested
    return requested


def _rank(tree: QueueTree) -> NDArray[np.intp]:
    """The older queue goes first, then by name; rows are in order of names already."""
    return np.argsort(np.argsort([queue.created for queue in tree.queues], kind="stable"), kind="stable")
