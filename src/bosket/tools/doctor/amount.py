"""What pods ask for, gangs need and nodes have, in the three resources that queues account for.

Amounts are `QueueAmounts` of the scheduler's model: GPUs, millicores, bytes. What a gang needs is a lower bound: pods
that don't exist yet are taken to be as small as the smallest one that does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from bosket.api.core import Node, Pod
from bosket.api.gang import leaves_first, minimum
from bosket.api.kai import PodGroupSpec, QueueResources
from bosket.api.keys import SUBGROUP_LABEL
from bosket.api.quantity import InvalidQuantity
from bosket.scheduler.model.gpu_share import UnusableShare, share_of
from bosket.scheduler.model.resource import NOTHING, QueueAmounts, UncountableAmount, amounts_of, pod_request

RESOURCES: Final = ("gpu", "cpu", "memory")
#: Of a queue's CPU, memory: in thousandths of a core, in megabytes.
_UNITS: Final = (1.0, 1.0, 1e6)
_WORDS: Final = ("GPUs", "CPU cores", "GiB of memory")
_SHOWN_IN: Final = (1.0, 1e3, 2.0**30)


def asked_by(pod: Pod) -> QueueAmounts | None:
    """What a pod asks for; None if it can't be read. Parts of GPUs that are asked for by memory count nothing."""
    try:
        request = pod_request(pod.spec)
        share = share_of(pod.metadata.annotations)
    except (InvalidQuantity, UncountableAmount, UnusableShare):
        return None
    shared = share.gpus_by(None) if share is not None else 0.0
    return (request.get("gpu", 0) + shared, float(request.get("cpu", 0)), float(request.get("memory", 0)))


def held_by(node: Node) -> QueueAmounts:
    """What a node can give."""
    try:
        amounts = amounts_of(node.status.allocatable)
    except (InvalidQuantity, UncountableAmount):
        return NOTHING
    return (float(amounts.get("gpu", 0)), float(amounts.get("cpu", 0)), float(amounts.get("memory", 0)))


def total(shares: Iterable[QueueAmounts]) -> QueueAmounts:
    """The sum, resource by resource."""
    gpu = cpu = memory = 0.0
    for each in shares:
        gpu, cpu, memory = gpu + each[0], cpu + each[1], memory + each[2]
    return gpu, cpu, memory


def bounds(resources: QueueResources, name: str) -> QueueAmounts:
    """`quota` or `limit` of a queue in these units; below 0 where it has none."""
    values = (getattr(getattr(resources, resource), name) for resource in RESOURCES)
    gpu, cpu, memory = (value * unit if value >= 0 else -1.0 for value, unit in zip(values, _UNITS, strict=True))
    return gpu, cpu, memory


def needed_by(spec: PodGroupSpec, pods: Sequence[Pod]) -> QueueAmounts | None:
    """What a gang needs at least to start; None if nobody can tell, because it has no pods yet."""
    by_part: dict[str, list[QueueAmounts]] = {}
    for pod in pods:
        asked = asked_by(pod)
        if asked is not None:
            by_part.setdefault(pod.metadata.labels.get(SUBGROUP_LABEL, ""), []).append(asked)
    if not by_part:
        return None
    if not spec.subGroups:
        return _smallest([share for shares in by_part.values() for share in shares], minimum(spec))
    needs: dict[str, QueueAmounts] = {}
    for each, below in leaves_first(spec.subGroups):
        if below:
            needs[each.name] = _least([needs[child.name] for child in below if child.name in needs], each.minSubGroup)
        else:
            needs[each.name] = _smallest(by_part.get(each.name, []), each.minMember or 0)
    return _least([needs[each.name] for each in spec.subGroups if not each.parent], spec.minSubGroup)


def _least(needs: Sequence[QueueAmounts], enough: int | None) -> QueueAmounts:
    """What the smallest of some sub-groups need, as many as are enough."""
    return _smallest(needs, len(needs) if enough is None else min(enough, len(needs)))


def _smallest(shares: Sequence[QueueAmounts], count: int) -> QueueAmounts:
    """The sum of the `count` smallest, resource by resource; those that are missing are like the smallest."""
    if not shares:
        return NOTHING
    sums = []
    for place in range(len(RESOURCES)):
        values = sorted(share[place] for share in shares)[:count]
        sums.append(sum(values) + (count - len(values)) * (values[0] if values else 0.0))
    return sums[0], sums[1], sums[2]


def exceeds(asked: QueueAmounts, there: QueueAmounts) -> list[int]:
    """The places of the resources of which more is asked than there is; below 0 there is no bound."""
    return [place for place in range(len(RESOURCES)) if there[place] >= 0 and asked[place] > there[place] + 1e-9]


def in_queue_units(amount: float, place: int) -> float:
    """An amount of these units as a queue's quota or limit has it: GPUs, thousandths of a core, megabytes."""
    return amount / _UNITS[place]


def as_quota(amount: float, place: int) -> str:
    """The least quota or limit that holds the amount, as a queue has it: whole, but for parts of GPUs."""
    value = in_queue_units(amount, place)
    return f"{math.ceil(value * 100 - 1e-6) / 100:g}" if place == 0 else str(math.ceil(value - 1e-6))


def words(shares: QueueAmounts, place: int) -> str:
    """`8 GPUs`, `2.5 CPU cores`."""
    return f"{round(shares[place] / _SHOWN_IN[place], 2):.10g} {_WORDS[place]}"
