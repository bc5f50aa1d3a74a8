"""KindHandlers: how objects of one kind are put into the live state, dropped from it, and listed for recordings.

`ClusterState` has handlers for each kind that the scheduler looks at. The feed, snapshot files and tests use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bosket.api.object import KubeObject, ObjectKey

T = TypeVar("T", bound=KubeObject)
K_contra = TypeVar("K_contra", contravariant=True)
R = TypeVar("R")


#: Keys that a journal notes before it forgets them all.
MOST_NOTED: Final = 20_000
Changed = tuple[type[KubeObject], ObjectKey]


class Journal:
    """Which objects of the live state changed since it was last read: keys, each once, in the order of first changes.

    The flight recorder writes down only what changed between two cycles, and learns it here: objects that came by a
    watch, and the scheduler's own decisions, which count before the API server shows them. A process that stands by
    reads nothing: what would become too much is forgotten.
    """

    def __init__(self) -> None:
        self._changed: dict[Changed, None] = {}
        self._is_whole = True

    def note(self, kind: type[KubeObject], key: ObjectKey) -> None:
        """Notes that the object came, changed or went."""
        self._changed[kind, key] = None
        if len(self._changed) > MOST_NOTED:
            self._changed.clear()
            self._is_whole = False

    def take(self) -> tuple[Changed, ...] | None:
        """What changed since the last call; None where that was too much to be noted."""
        if not self._is_whole:
            self._changed, self._is_whole = {}, True
            return None
        if not self._changed:
            return ()
        changed, self._changed = tuple(self._changed), {}
        return changed


class Known(Protocol[K_contra]):
    """The objects of a kind that the state knows; a dict will do."""

    def get(self, key: K_contra, /) -> KubeObject | None: ...

    def values(self) -> Iterable[KubeObject]: ...


class KindHandlers(NamedTuple, Generic[T]):
    """The handlers of one kind."""

    put: Callable[[T], object]  #: takes an object that is new, or changed
    drop: Callable[[T], object]  #: takes an object that was deleted
    objects: Callable[[], Iterable[KubeObject]]  #: returns all objects, as they were put in
    find: Callable[[ObjectKey], KubeObject | None]  #: returns one of them

    def noted_in(self, journal: Journal, kind: type[KubeObject]) -> KindHandlers[T]:
        """Handlers that also note in the journal which objects changed."""
        inner_put, inner_drop, note = self.put, self.drop, journal.note

        def put(obj: T) -> None:
            note(kind, obj.key)
            inner_put(obj)

        def drop(obj: T) -> None:
            note(kind, obj.key)
            inner_drop(obj)

        return KindHandlers(put, drop, self.objects, self.find)


def by_key(
    put: Callable[[T], R],
    drop: Callable[[ObjectKey], R],
    known: Known[ObjectKey],
    then: Callable[[R], object] | None = None,
) -> KindHandlers[T]:
    """Handlers of a namespaced kind; `then` is called with what `put` and `drop` return."""
    if then is None:
        return KindHandlers(put, lambda obj: drop(obj.key), known.values, known.get)
    return KindHandlers(lambda obj: then(put(obj)), lambda obj: then(drop(obj.key)), known.values, known.get)


def by_name(
    put: Callable[[T], R],
    drop: Callable[[str], R],
    known: Known[str],
    then: Callable[[R], object] | None = None,
) -> KindHandlers[T]:
    """Handlers of a cluster-scoped kind."""
    after = then or _nothing_more
    return KindHandlers(
        lambda obj: after(put(obj)),
        lambda obj: after(drop(obj.key.name)),
        known.values,
        lambda key: known.get(key.name),
    )


def _nothing_more(_: object) -> None:
    pass
