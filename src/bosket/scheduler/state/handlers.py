"""KindHandlers: how objects of one kind are put into the live state, dropped from it, and listed for recordings.

`ClusterState` has handlers for each kind that the scheduler looks at. The feed, snapshot files and tests use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from bosket.api.object import KubeObject, ObjectKey

T = TypeVar("T", bound=KubeObject)
R = TypeVar("R")


class KindHandlers(NamedTuple, Generic[T]):
    """The handlers of one kind."""

    put: Callable[[T], object]  #: takes an object that is new, or changed
    drop: Callable[[T], object]  #: takes an object that was deleted
    objects: Callable[[], Iterable[KubeObject]]  #: returns all objects, as they were put in


def by_key(
    put: Callable[[T], R],
    drop: Callable[[ObjectKey], R],
    objects: Callable[[], Iterable[KubeObject]],
    then: Callable[[R], object] | None = None,
) -> KindHandlers[T]:
    """Handlers of a namespaced kind; `then` is called with what `put` and `drop` return."""
    if then is None:
        return KindHandlers(put, lambda obj: drop(obj.key), objects)
    return KindHandlers(lambda obj: then(put(obj)), lambda obj: then(drop(obj.key)), objects)


def by_name(
    put: Callable[[T], R],
    drop: Callable[[str], R],
    objects: Callable[[], Iterable[KubeObject]],
    then: Callable[[R], object] | None = None,
) -> KindHandlers[T]:
    """Handlers of a cluster-scoped kind."""
    return by_key(put, lambda key: drop(key.name), objects, then)
