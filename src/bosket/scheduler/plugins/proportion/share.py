"""Fair shares of a snapshot: what the cluster has to divide, what queues request, and the division."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bosket.scheduler.model.queue import UNLIMITED, QueueTree
from bosket.scheduler.model.resource import GPU, NOTHING, QUEUE_RESOURCES, QueueAmounts, mig_gpus, plus
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins.proportion.division import QueueDemand, divide_tree

RESOURCES = range(len(QUEUE_RESOURCES))
#: Larger weights count as this, so that their sum doesn't overflow.
HEAVIEST = 1e100
INDEXES = list(QUEUE_RESOURCES)


def cluster_total(snapshot: Snapshot) -> QueueAmounts:
    """The amounts of nodes that take pods, without what pods of other schedulers hold there."""
    nodes = snapshot.nodes
    ours = nodes.allocatable[INDEXES] - nodes.foreign[INDEXES]
    for resource, name in enumerate(snapshot.resource_names):
        if (gpus_each := mig_gpus(name)) > 0:
            ours[INDEXES.index(GPU)] += gpus_each * (nodes.allocatable[resource] - nodes.foreign[resource])
    if snapshot.worker_labels is not None:  # GPUs of nodes that take no GPU pods can't be used
        ours[INDEXES.index(GPU)] *= [snapshot.worker_labels.gpu in node.metadata.labels for node in nodes.nodes]
    gpus, millicores, memory = ours[:, snapshot.taking_nodes()].sum(axis=1).tolist()
    return gpus, millicores, memory


def fair_shares(snapshot: Snapshot, k: float) -> list[QueueAmounts]:
    """The fair share of every queue, resource by resource."""
    tree = snapshot.queues
    usage = [snapshot.usage.of(queue.name) for queue in tree.queues]  # of inner queues their own, as in KAI
    return divide_among(tree, cluster_total(snapshot), _requested(snapshot), usage, k)


def divide_among(
    tree: QueueTree, total: QueueAmounts, requested: Sequence[QueueAmounts], usage: Sequence[QueueAmounts], k: float
) -> list[QueueAmounts]:
    """Fair shares of all queues, given their requests (descendants included) and their past usage."""
    if not tree.queues:
        return []
    quota, limit, weight = (
        np.array([getattr(queue, part) for queue in tree.queues]) for part in ("quota", "limit", "weight")
    )
    wanted, used = np.array(requested), np.array(usage)
    priority = np.array([queue.priority for queue in tree.queues])
    rank = _rank(tree)
    shares = np.zeros((len(tree.queues), len(RESOURCES)))
    for resource in RESOURCES:
        demand = QueueDemand(
            quota=quota[:, resource],
            limit=limit[:, resource],
            weight=np.minimum(weight[:, resource], HEAVIEST),
            request=wanted[:, resource],
            usage=used[:, resource],
            priority=priority,
            rank=rank,
        )
        shares[:, resource] = divide_tree(total[resource], demand, tree.roots, tree.children, k)
    return as_shares(shares)


def allocatable_shares(tree: QueueTree, fair_share: Sequence[QueueAmounts]) -> list[QueueAmounts]:
    """What each queue may hold before it can be reclaimed from; -1 for no bound."""
    if not tree.queues:
        return []
    quota, limit = (np.array([getattr(queue, part) for queue in tree.queues]) for part in ("quota", "limit"))
    entitled = np.maximum(quota, np.array(fair_share))
    within = np.where(limit == UNLIMITED, entitled, np.minimum(limit, entitled))
    return as_shares(np.where(quota == UNLIMITED, limit, within))


def as_shares(amounts: NDArray[np.float64]) -> list[QueueAmounts]:
    """By queue, of an array over (queue, resource)."""
    return [(gpus, millicores, memory) for gpus, millicores, memory in amounts.tolist()]


def _requested(snapshot: Snapshot) -> list[QueueAmounts]:
    """By queue: what jobs hold and request, in the queue and its descendants."""
    tree = snapshot.queues
    requested = [NOTHING] * len(tree.queues)
    # Sorted, because float sums depend on the order, and fair shares are compared for equality.
    for name, use in sorted(snapshot.use.items()):
        row = tree.rows.get(name)
        for step in tree.paths[row] if row is not None else ():
            requested[step] = plus(requested[step], use.requested)
    return requested


def _rank(tree: QueueTree) -> NDArray[np.intp]:
    """The older queue goes first, then by name; rows are in order of names already."""
    return np.argsort(np.argsort([queue.created for queue in tree.queues], kind="stable"), kind="stable")
