"""What a StatefulSet needs next, decided without I/O: which ordinals to create, which pods to delete.

Pods are made from the lowest ordinal up and taken away from the highest down. With `OrderedReady` each step waits
until the one before it serves (or is gone); with `Parallel` it does not. An update replaces pods from the highest
ordinal down to the partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from bosket.api.apps import StatefulSet
from bosket.api.core import Pod
from bosket.api.pod_phase import has_ended
from bosket.embedded.controllers.pods import is_ready, seconds_until_available
from bosket.embedded.controllers.revision_history import revision_of
from bosket.embedded.controllers.stateful_pod import ordinal_of


@dataclass(slots=True)
class StatefulPlan:
    """What to do now."""

    create: list[int] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Members:
    """The pods of a set, and what a plan must know of them."""

    owner: StatefulSet
    pods: list[Pod]
    #: The revision that pods should have in the end.
    update_revision: str
    is_going: Callable[[Pod], bool]
    now: float

    def serves(self, pod: Pod) -> bool:
        """Running, ready for long enough, and not on its way out."""
        available = seconds_until_available(pod, self.owner.spec.minReadySeconds, self.now) == 0
        return available and is_ready(pod) and not has_ended(pod) and not self.is_going(pod)


def replicas_of(owner: StatefulSet) -> int:
    """The size asked for; one, if nothing is said."""
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def first_ordinal(owner: StatefulSet) -> int:
    """Where the set begins to count."""
    return owner.spec.ordinals.start if owner.spec.ordinals is not None else 0


def partition_of(owner: StatefulSet) -> int:
    """The first ordinal that an update reaches."""
    rolling = owner.spec.updateStrategy.rollingUpdate
    return first_ordinal(owner) + ((rolling.partition or 0) if rolling is not None else 0)


def plan(members: Members) -> StatefulPlan:
    """The next steps."""
    owner = members.owner
    in_order = owner.spec.podManagementPolicy != "Parallel"
    first, size = first_ordinal(owner), replicas_of(owner)
    wanted = range(first, first + size)
    by_ordinal = {ordinal_of(pod, owner): pod for pod in members.pods}
    result = StatefulPlan()
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            result.create.append(ordinal)
        elif has_ended(pod) and not members.is_going(pod):
            result.delete.append(pod)  # its successor has the same name, and comes when this one is gone
        if in_order and (pod is None or not members.serves(pod)):
            return result
    surplus = sorted((ordinal for ordinal in by_ordinal if ordinal is not None and ordinal not in wanted), reverse=True)
    for ordinal in surplus:
        pod = by_ordinal[ordinal]
        if not members.is_going(pod):
            result.delete.append(pod)
        if in_order:
            return result
    if not result.create and not result.delete and owner.spec.updateStrategy.type != "OnDelete":
        result.delete = _outdated(members, [by_ordinal[ordinal] for ordinal in wanted])
    return result


def _outdated(members: Members, pods: list[Pod]) -> list[Pod]:
    """Pods of earlier revisions that may go now: as many as may be missing, the highest ordinals first."""
    budget = _max_unavailable(members.owner) - sum(not members.serves(pod) for pod in pods)
    chosen: list[Pod] = []
    for pod in reversed(pods):
        ordinal = ordinal_of(pod, members.owner)
        if ordinal is None or ordinal < partition_of(members.owner):
            break
        if revision_of(pod) == members.update_revision or members.is_going(pod):
            continue
        if members.serves(pod):
            if budget <= 0:
                break
            budget -= 1
        chosen.append(pod)
    return chosen


def _max_unavailable(owner: StatefulSet) -> int:
    rolling = owner.spec.updateStrategy.rollingUpdate
    value = rolling.maxUnavailable if rolling is not None else None
    if value is None:
        return 1
    if isinstance(value, int):
        return max(1, value)
    return max(1, math.ceil(float(value.removesuffix("%")) * replicas_of(owner) / 100))
