"""How many pods each ReplicaSet of a Deployment should have next: arithmetic only, by the rules of Kubernetes.

`new` is the set of the present template, `old` are those of earlier ones. Every function says what one step of a
rollout changes (sets that stay as they are left out); the next step follows when the pods of this one have come or
gone.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from bosket.api.apps import Deployment, ReplicaSet
from bosket.api.quantity import integer_or_none

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"


class Resize(NamedTuple):
    """A set and the size it should have."""

    set: ReplicaSet
    replicas: int


class Bounds(NamedTuple):
    """How many more pods than asked for there may be, and how many fewer may serve."""

    surge: int
    unavailable: int


def replicas_of(wanted: Deployment | ReplicaSet) -> int:
    """The size asked for; one, if nothing is said."""
    return 1 if wanted.spec.replicas is None else wanted.spec.replicas


def is_rolling(deployment: Deployment) -> bool:
    """Whether old pods give way to new ones bit by bit."""
    return deployment.spec.strategy.type != "Recreate"


def bounds(deployment: Deployment) -> Bounds:
    """Percentages of the size: surge rounded up, unavailable rounded down, and never both zero."""
    if not is_rolling(deployment):
        return Bounds(0, replicas_of(deployment))
    rolling = deployment.spec.strategy.rollingUpdate
    size = replicas_of(deployment)
    surge = _part(rolling.maxSurge if rolling else None, size, up=True)
    unavailable = _part(rolling.maxUnavailable if rolling else None, size, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(surge, min(unavailable, size))


def _part(value: int | str | None, size: int, *, up: bool) -> int:
    if value is None:
        value = "25%"
    if isinstance(value, int):
        return value
    share = float(value.removesuffix("%")) * size / 100
    return math.ceil(share) if up else math.floor(share)


def size_of_new(deployment: Deployment, others: list[ReplicaSet], present: int) -> int:
    """The size of the newest set, given what it has and what the others have."""
    size = replicas_of(deployment)
    if present >= size:
        return size
    if not is_rolling(deployment):
        return size
    room = size + bounds(deployment).surge - present - sum(replicas_of(each) for each in others)
    return present + max(0, min(room, size - present))


def shrink_old(deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> list[Resize]:
    """How the old sets give way: first pods that don't serve, then others, as long as enough are left that do."""
    least = replicas_of(deployment) - bounds(deployment).unavailable
    # A new pod that doesn't serve yet can't stand in for an old one.
    spare = sum(replicas_of(each) for each in old) + (new.status.availableReplicas if new is not None else 0) - least
    in_age = sorted(old, key=_age)
    sizes = {each.metadata.name: replicas_of(each) for each in in_age}
    for each in in_age:
        cut = max(0, min(spare, replicas_of(each) - each.status.availableReplicas))
        sizes[each.metadata.name] -= cut
        spare -= cut
    for each in in_age:
        cut = max(0, min(spare, sizes[each.metadata.name]))
        sizes[each.metadata.name] -= cut
        spare -= cut
    return [
        Resize(each, sizes[each.metadata.name]) for each in in_age if sizes[each.metadata.name] != replicas_of(each)
    ]


def was_resized(deployment: Deployment, sets: list[ReplicaSet]) -> bool:
    """Whether somebody changed the deployment's size since its sets were last sized."""
    size = str(replicas_of(deployment))
    return any(replicas_of(each) > 0 and each.metadata.annotations.get(DESIRED, size) != size for each in sets)


def resize(deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> list[Resize]:
    """Follow a change of the deployment's size without going on with the rollout.

    Every set that has pods is among them, also if its size stays: it will note the deployment's size.
    """
    size = replicas_of(deployment)
    everything = [*old, *([new] if new is not None else [])]
    active = [each for each in everything if replicas_of(each) > 0]
    if len(active) <= 1:
        only = active[0] if active else new or max(everything, key=_age, default=None)
        return [Resize(only, size)] if only is not None else []
    if new is not None and replicas_of(new) == size == new.status.availableReplicas:
        return [Resize(each, size if each is new else 0) for each in active]
    if is_rolling(deployment):
        return _resize_in_proportion(deployment, active)
    return [Resize(each, replicas_of(each)) for each in active]


def _resize_in_proportion(deployment: Deployment, active: list[ReplicaSet]) -> list[Resize]:
    """In the middle of a rollout every set keeps its share, so that a bad new version does not take it all."""
    size = replicas_of(deployment)
    most = size + bounds(deployment).surge if size > 0 else 0
    to_add = most - sum(replicas_of(each) for each in active)
    # What can't be divided goes to the largest; among equals new sets grow first, and old ones shrink first.
    active = sorted(active, key=_age, reverse=to_add > 0)
    active.sort(key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for each in active:
        share = _share(each, most) if size > 0 else -replicas_of(each)
        left = to_add - added
        change = min(share, left) if to_add > 0 else max(share, left)
        change = 0 if (change > 0) != (to_add > 0) else change
        sizes.append(replicas_of(each) + change)
        added += change
    sizes[0] = max(0, sizes[0] + to_add - added)
    return [Resize(each, wanted) for each, wanted in zip(active, sizes, strict=True)]


def _share(each: ReplicaSet, most: int) -> int:
    """How much the set grows when all may together be `most`, instead of what was noted last."""
    noted = each.metadata.annotations.get(MAXIMUM, "")
    before = max(0, integer_or_none(noted) or 0) or max(1, each.status.replicas)
    return math.floor(replicas_of(each) * most / before + 0.5) - replicas_of(each)


def _age(each: ReplicaSet) -> tuple[str, str]:
    """Sorts the oldest first."""
    return each.metadata.creationTimestamp or "", each.metadata.name
