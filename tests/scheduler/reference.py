"""Slow and plain: what the vectorised kernels must agree with. One number at a time, everything from scratch.

`fair_shares` divides one resource among a tree of queues, `choose_node` looks for the best node for one pod, and
`place_gang` places a job of equal pods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

UNLIMITED = -1.0

# Fair shares


@dataclass(frozen=True)
class Sharer:
    """A queue, as far as one resource goes."""

    name: str
    parent: str
    priority: int
    created: int
    quota: float
    limit: float
    weight: float
    request: float
    usage: float

    @property
    def requestable(self) -> float:
        return self.request if self.limit == UNLIMITED else min(self.limit, self.request)


def fair_shares(total: float, queues: Sequence[Sharer], k: float) -> dict[str, float]:
    """The share of every queue; children divide what their parent has got."""
    shares: dict[str, float] = {}

    def descend(parent: str, amount: float) -> None:
        siblings = [queue for queue in queues if queue.parent == parent]
        shares.update(_divide(amount, siblings, k))
        for queue in siblings:
            descend(queue.name, shares[queue.name])

    descend("", total)
    return shares


def _divide(total: float, siblings: Sequence[Sharer], k: float) -> dict[str, float]:
    shares = {
        queue.name: min(total if queue.quota == UNLIMITED else queue.quota, queue.requestable) for queue in siblings
    }
    left = total - sum(shares.values())
    if left <= 0:
        return shares
    priorities = sorted({queue.priority for queue in siblings}, reverse=True)
    remainders: dict[str, float] = {}
    for priority in priorities:
        bucket = [queue for queue in siblings if queue.priority == priority]
        left = _divide_by_weight(left, bucket, shares, remainders, k)
    for priority in priorities:
        cut_short = [queue for queue in siblings if queue.priority == priority and queue.name in remainders]
        for queue in sorted(cut_short, key=lambda each: (-remainders[each.name], each.created, each.name)):
            given = min(1.0, left)
            shares[queue.name] += given
            left -= given
    return shares


def _divide_by_weight(
    left: float, bucket: Sequence[Sharer], shares: dict[str, float], remainders: dict[str, float], k: float
) -> float:
    """Rounds, until nobody asks for less than its part; returns what is left."""
    while left > 0:
        wanting = [queue for queue in bucket if queue.requestable > shares[queue.name]]
        weights = sum(queue.weight for queue in wanting)
        if weights == 0:
            break
        pulls = {}
        for queue in wanting:
            normal = queue.weight / weights
            pulls[queue.name] = max(0.0, normal + k * (normal - queue.usage))
        if sum(pulls.values()) == 0:
            break
        amount, again = left, False
        for queue in wanting:
            if queue.weight == 0:
                continue
            part = amount * (pulls[queue.name] / sum(pulls.values()))
            wanted = queue.requestable - shares[queue.name]
            if wanted <= part:
                given = wanted
                remainders.pop(queue.name, None)
                again = again or wanted < part
            else:
                given = math.floor(part)
                if part > given:
                    remainders[queue.name] = part - given
            shares[queue.name] += given
            left -= given
        if not again:
            break
    return left


# Nodes

AVAILABLE, CPU_ONLY, DENSEST = 1000.0, 10.0, 9.0

Amounts = dict[str, float]  #: resource → amount


@dataclass
class PlainNode:
    """A node: what it has, what of it is free, and what is on its way to become free."""

    name: str
    allocatable: Amounts
    idle: Amounts
    releasing: Amounts
    accepts: bool  #: whether labels, taints and cordons let the pod in

    def free(self, resource: str) -> float:
        """Now or soon."""
        return self.idle.get(resource, 0.0) + self.releasing.get(resource, 0.0)

    def has_room(self, request: Mapping[str, float]) -> bool:
        """A node that holds more of anything than it has takes nobody."""
        resources = {*self.idle, *self.releasing, *request}
        return all(self.free(resource) >= request.get(resource, 0.0) for resource in resources)

    def has_room_now(self, request: Mapping[str, float]) -> bool:
        return all(self.idle.get(resource, 0.0) >= request.get(resource, 0.0) for resource in {*self.idle, *request})


def choose_node(nodes: Iterable[PlainNode], request: Mapping[str, float], strategy: str) -> PlainNode | None:
    """The node with the highest score of those that take the pod; of equals the one with the smallest name."""
    everywhere = list(nodes)
    fitting = [node for node in everywhere if node.accepts and node.has_room(request)]
    return min(fitting, key=lambda node: (-_score(node, everywhere, request, strategy), node.name), default=None)


def place_gang(
    nodes: Sequence[PlainNode], request: Mapping[str, float], minimum: int, extras: int, strategy: str
) -> tuple[list[str], list[str]]:
    """Where the pods of a job go that are all alike: bound at once, and promised what is being released.

    When the gang must wait for one of its pods, all of it waits, and so do the extras.
    """
    chosen: list[tuple[PlainNode, bool]] = []
    for _ in range(minimum):
        best = choose_node(nodes, request, strategy)
        if best is None:
            return [], []
        chosen.append((best, best.has_room_now(request)))
        take(best.idle if best.has_room_now(request) else best.releasing, request)
    must_wait = not all(now for _, now in chosen)
    for node, now in chosen:
        if must_wait and now:
            take(node.idle, {resource: -amount for resource, amount in request.items()})
            take(node.releasing, request)
    bound = [] if must_wait else [node.name for node, _ in chosen]
    promised = [node.name for node, _ in chosen] if must_wait else []
    for _ in range(extras):
        best = choose_node(nodes, request, strategy)
        if best is None:
            break
        now = best.has_room_now(request) and not must_wait
        (bound if now else promised).append(best.name)
        take(best.idle if now else best.releasing, request)
    return bound, promised


def take(amounts: Amounts, request: Mapping[str, float]) -> None:
    """Less of everything that is asked for."""
    for resource, amount in request.items():
        amounts[resource] = amounts.get(resource, 0.0) - amount


def _score(node: PlainNode, nodes: Sequence[PlainNode], request: Mapping[str, float], strategy: str) -> float:
    resource = "gpu" if request.get("gpu") else "cpu"
    score = AVAILABLE if node.has_room_now(request) else 0.0
    if resource == "cpu" and not node.allocatable.get("gpu"):
        score += CPU_ONLY
    having = [each for each in nodes if each.allocatable.get(resource)]
    if node not in having:
        return score
    if strategy == "spread":
        return score + node.free(resource) / node.allocatable[resource]
    least, most = min(each.free(resource) for each in having), max(each.free(resource) for each in having)
    if most == least:
        return score + (DENSEST if most else 0.0)
    return score + DENSEST * (1 - (node.free(resource) - least) / (most - least))
