"""Finds the jobs, nodes, queues or plugins with which `decide` raises, by calling it on parts of the snapshot.

`decide` is pure, so trials have no effect. First it is called without all jobs; if that raises, too, also without all
nodes, then without all queues. Each of these kinds is then put back in halves; an object that can't be put back without
another exception is a culprit. The search is a generator that yields before every trial, because each costs as much as
a cycle: the scheduler's loop pauses in between (`quarantine`), `replay` doesn't.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from bosket.api.object import ObjectKey
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.faults.partial import LeftOut, without
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins import BUILT_IN

#: The maximum number of trials; beyond it whole halves are left out instead of being divided further.
TRIALS: Final = 150

POD_GROUP, NODE, QUEUE, PLUGIN = "PodGroup", "Node", "Queue", "Plugin"


class Suspect(NamedTuple):
    """Something that a cycle can do without. Plugins are those of the configuration that aren't Bosket's own: without
    one of these, pods would be placed where they may not go."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


Search = Generator[None, None, list[Suspect] | None]  #: ends with the culprits; None when nothing helps


def run_through(search: Search) -> list[Suspect] | None:
    """The outcome of a search, without a pause."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: list[Suspect] | None = end.value
            return found


def find_culprits(
    snapshot: Snapshot,
    configuration: Configuration,
    among: Collection[Suspect] | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
    *,
    searching: bool = True,
) -> Search:
    """The fewest things, as far as that is found, without which `decide` doesn't raise; None when nothing helps.

    `among`: the only ones that are suspected. When `may_go_on` says no, whole halves are left out as they are.
    `searching`: False where it raised while it placed, so that trials needn't search for victims.
    """
    court = _Trials(snapshot, configuration, may_go_on, searching=searching)
    if among is not None:
        return (yield from court.narrow(sorted(among), ()))
    levels = [court.jobs(), court.nodes(), court.queues()]
    out: list[Suspect] = []
    needed: list[list[Suspect]] = []
    for level in levels:
        needed.append(level)
        out += level
        yield
        if court.passes(out):
            break
    else:
        return (yield from court.one_plugin())
    culprits: list[Suspect] = []
    for number, level in reversed(list(enumerate(needed))):
        wider = [each for other in needed[:number] for each in other]
        culprits += yield from court.narrow(level, [*wider, *culprits])
    if len(culprits) > 1:
        # Jobs may only fail together, and then others may be fewer. Where most pending jobs fail, the cause may be
        # one node or plugin that they all meet; without one of these, what is decided about everybody changes.
        most = sum(each.kind == POD_GROUP for each in culprits) * 2 > len(snapshot.unsettled)
        for alternative in (court.jobs()[::-1], *((court.nodes(), court.plugins()) if most else ())):
            fewer = yield from court.narrow(alternative, ())
            if fewer and len(fewer) < len(culprits):
                culprits = fewer
    return culprits


class _Trials:
    """Trials of one snapshot."""

    def __init__(
        self, snapshot: Snapshot, configuration: Configuration, may_go_on: Callable[[], bool], *, searching: bool
    ) -> None:
        self._snapshot, self._configuration, self._may_go_on = snapshot, configuration, may_go_on
        self._proposals: Proposals | None = None if searching else {}
        self._trials = TRIALS

    def passes(self, out: Iterable[Suspect]) -> bool:
        """Whether `decide` succeeds without these."""
        self._trials -= 1
        part, configuration = without_suspects(self._snapshot, self._configuration, dict.fromkeys(out, ""))
        try:
            decide(part, configuration, proposals=self._proposals)
        except Exception:
            return False
        return True

    def narrow(self, items: Sequence[Suspect], out: Sequence[Suspect]) -> Generator[None, None, list[Suspect]]:
        """Those of the items that have to be left out, beside `out`. Of several that only fail together, the later
        ones. Nothing where it doesn't help to leave out all of them."""
        if not items:
            return []
        yield
        if not self.passes([*items, *out]):
            return []
        kept: set[Suspect] = set()
        culprits: list[Suspect] = []
        ahead = [list(items)]
        while ahead:
            part = ahead.pop()
            yield
            tried = kept.union(part)
            if self.passes([*(each for each in items if each not in tried), *out]):
                kept = tried
            elif len(part) == 1 or self._trials <= 0 or not self._may_go_on():
                culprits += part
            else:
                half = len(part) // 2
                ahead += [part[half:], part[:half]]
        return culprits

    def one_plugin(self) -> Search:
        """The plugin that raises though there is nothing left to decide on."""
        for plugin in self.plugins():
            yield
            if self.passes([plugin]):
                return [plugin]
        return None

    def jobs(self) -> list[Suspect]:
        """Those that run come last: of a job that waits and one that it would evict, the latter suffers less when it is
        left out."""
        keys = sorted(self._snapshot.jobs, key=lambda key: (not self._snapshot.jobs[key].has_waiting, key))
        return [Suspect(POD_GROUP, key.name, key.namespace) for key in keys]

    def nodes(self) -> list[Suspect]:
        return [Suspect(NODE, name) for name in self._snapshot.nodes.names]

    def queues(self) -> list[Suspect]:
        return [Suspect(QUEUE, queue.name) for queue in self._snapshot.queues.queues]

    def plugins(self) -> list[Suspect]:
        return [Suspect(PLUGIN, each.name) for each in self._configuration.plugins if each.name not in BUILT_IN]


def without_suspects(
    snapshot: Snapshot, configuration: Configuration, out: Mapping[Suspect, str]
) -> tuple[Snapshot, Configuration]:
    """The snapshot and configuration without these; the text becomes the reason of jobs whose queue is left out."""
    if not out:
        return snapshot, configuration
    plugins = {each.name for each in out if each.kind == PLUGIN}
    if plugins:
        kept = tuple(each for each in configuration.plugins if each.name not in plugins)
        configuration = replace(configuration, plugins=kept)
    left_out = LeftOut(
        jobs=frozenset(ObjectKey(each.namespace, each.name) for each in out if each.kind == POD_GROUP),
        nodes=frozenset(each.name for each in out if each.kind == NODE),
        queues={each.name: text for each, text in out.items() if each.kind == QUEUE},
    )
    return without(snapshot, left_out), configuration


def failure_text(error: BaseException) -> str:
    """An exception in one line, for people: what it says, and the line that raised it."""
    where = failure_place(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}{f' ({where})' if where else ''}"


def failure_place(error: BaseException) -> str:
    """The line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
