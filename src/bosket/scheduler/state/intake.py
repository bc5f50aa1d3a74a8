"""How objects of one kind come into the live state, leave it, and are told again for recordings.

`ClusterState` has one intake for each kind that it looks at: the feed, snapshot files and tests all go through these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from bosket.api.object import KubeObject, ObjectKey

T = TypeVar("T", bound=KubeObject)
R = TypeVar("R")


class Intake(NamedTuple, Generic[T]):
    """The ways in and out of one kind."""

    put: Callable[[T], object]  #: an object that is new, or changed
    drop: Callable[[T], object]  #: one that is gone
    objects: Callable[[], Iterable[KubeObject]]  #: all that are there, as they were put in


def by_key(
    put: Callable[[T], R],
    drop: Callable[[ObjectKey], R],
    objects: Callable[[], Iterable[KubeObject]],
    then: Callable[[R], object] | None = None,
) -> Intake[T]:
    """Of a kind whose objects are known by namespace and name; `then` is told what putting and dropping came to."""
    if then is None:
        return Intake(put, lambda obj: drop(obj.key), objects)
    return Intake(lambda obj: then(put(obj)), lambda obj: then(drop(obj.key)), objects)


def by_name(
    put: Callable[[T], R],
    drop: Callable[[str], R],
    objects: Callable[[], Iterable[KubeObject]],
    then: Callable[[R], object] | None = None,
) -> Intake[T]:
    """The same of a kind whose objects are in no namespace."""
    return by_key(put, lambda key: drop(key.name), objects, then)
