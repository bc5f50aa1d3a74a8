"""Finds the objects with which a snapshot raises, by trying without them.

Objects are dropped in batches until the snapshot succeeds, and put back in halves; an object that can't be put back
without another exception is a culprit. The search is a generator that yields between pieces of work, so that the event
loop runs in between; each piece costs a snapshot at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from bosket.api.object import KubeObject
from bosket.scheduler.state.cluster_state import ClusterState

_log = logging.getLogger(__name__)

#: Objects that are taken out or put in without a rest.
_MOST_AT_ONCE = 1000


class Entry(NamedTuple):
    """An object, and as what it is taken in: of some kinds only the metadata is known."""

    kind: type[KubeObject]
    obj: KubeObject


Steps = Generator[None, None, None]


def find_spoilers(
    state: ClusterState, batches: Sequence[Sequence[Entry]], now: float
) -> Generator[None, None, list[Entry]]:
    """Ends with the fewest entries, as far as that is found, without which the state can be looked at; it is left
    without these, and with all others. There are none where it doesn't help to take all of them out."""
    trial = _Trial(state, now)
    out: list[Sequence[Entry]] = []
    while not trial.passes():
        if len(out) == len(batches):
            for batch in out:
                yield from trial.put(batch)
            return []
        yield
        yield from trial.drop(batches[len(out)])
        out.append(batches[len(out)])
    spoilers: list[Entry] = []
    for batch in reversed(out):
        spoilers += yield from trial.put_back(batch)
    return spoilers


def fill(state: ClusterState, batches: Sequence[Sequence[Entry]], now: float) -> Steps:
    """Takes in all that can be."""
    for batch in batches:
        yield from _Trial(state, now).put(batch)


class _Trial:
    """A state that objects are taken out of and put back into."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self._state, self._now = state, now

    def passes(self) -> bool:
        """Whether the state can be looked at."""
        try:
            self._state.snapshot(self._now)
        except Exception:
            return False
        return True

    def put(self, entries: Sequence[Entry]) -> Steps:
        return self._each(entries, lambda entry: self._state.handlers(entry.kind).put(entry.obj))

    def drop(self, entries: Sequence[Entry]) -> Steps:
        return self._each(entries, lambda entry: self._state.handlers(entry.kind).drop(entry.obj))

    def put_back(self, entries: Sequence[Entry]) -> Generator[None, None, list[Entry]]:
        """Those that can't be put back."""
        spoilers: list[Entry] = []
        ahead = [entries]
        while ahead:
            part = ahead.pop()
            yield from self.put(part)
            yield
            if not part or self.passes():
                continue
            yield from self.drop(part)
            if len(part) == 1:
                spoilers += part
            else:
                half = len(part) // 2
                ahead += [part[half:], part[:half]]
        return spoilers

    def _each(self, entries: Sequence[Entry], do: Callable[[Entry], object]) -> Steps:
        for number, entry in enumerate(entries, 1):
            try:
                do(entry)
            except Exception:
                _log.exception("%s %s: the scheduler fails with it", entry.kind.__name__, entry.obj.key)
            if number % _MOST_AT_ONCE == 0:
                yield
