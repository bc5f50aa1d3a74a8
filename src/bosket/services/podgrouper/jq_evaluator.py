"""Answers to jq programs, found in a worker process and remembered.

The pod grouper has one: pods of all kinds share one worker, which is started when the first Karta is met. An answer
depends on the program and the object's version alone, so all pods of a gang share what was found about their owner.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from bosket.api.core import Pod
from bosket.api.object import KubeObject, ObjectMeta
from bosket.runtime.clock import Clock
from bosket.runtime.workqueue import Backoff
from bosket.services.podgrouper.jq_process import JqProcess
from bosket.services.podgrouper.owner import Owner
from bosket.services.podgrouper.program import Answer, Answers, Programs

#: Programs that exceeded a limit on an object of a namespace aren't run there again for this time.
_SUSPENSION: Final = Backoff(base_seconds=30.0, limit_seconds=1800.0)
#: All answers that are remembered, together; those that weren't asked for the longest time go first.
_REMEMBERED_CHARACTERS: Final = 16 << 20
#: What an answer takes beside its results.
_OVERHEAD_CHARACTERS: Final = 256
_SUSPENDED: Final = 1024


class _Asked(NamedTuple):
    programs: tuple[str, ...]
    uid: str
    version: str


class _Place(NamedTuple):
    """Where programs are suspended: in a namespace, so that nobody's objects stop a Karta for others."""

    programs: tuple[str, ...]
    namespace: str


@dataclass(frozen=True, slots=True)
class _Suspension:
    answers: tuple[Answer, ...]
    until: float
    times: int


class JqEvaluator:
    """The `ProgramRunner` of the service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._process: JqProcess | None = None
        self._one_at_a_time = asyncio.Lock()
        self._remembered: OrderedDict[_Asked, tuple[Answer, ...]] = OrderedDict()
        self._remembered_characters = 0
        self._suspended: OrderedDict[_Place, _Suspension] = OrderedDict()

    async def answers(self, programs: Programs, workload: Owner, pod: Pod) -> Answers:
        """All answers; those about the workload are found before those about the pod, and once for all of its pods."""
        return Answers(
            await self._find(programs.of_workload, workload.metadata, workload.source),
            await self._find(programs.of_pod, pod.metadata, pod),
        )

    def close(self) -> None:
        """End the worker process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    async def _find(
        self, programs: tuple[str, ...], meta: ObjectMeta, content: KubeObject | Mapping[str, object]
    ) -> Mapping[str, Answer]:
        asked, place = _Asked(programs, meta.uid, meta.resourceVersion), _Place(programs, meta.namespace)
        found = self._known(asked, place)
        if found is None:
            async with self._one_at_a_time:
                found = self._known(asked, place)  # another pod of the same owner may have asked meanwhile
                if found is None:
                    self._process = self._process or JqProcess()
                    found = await asyncio.to_thread(self._process.run, msgspec.json.encode(content), programs)
                    self._remember(asked, place, found)
        return dict(zip(programs, found, strict=True))

    def _known(self, asked: _Asked, place: _Place) -> tuple[Answer, ...] | None:
        if not asked.programs:
            return ()
        if asked in self._remembered:
            self._remembered.move_to_end(asked)
            return self._remembered[asked]
        suspension = self._suspended.get(place)
        return suspension.answers if suspension is not None and self._clock.monotonic() < suspension.until else None

    def _remember(self, asked: _Asked, place: _Place, found: tuple[Answer, ...]) -> None:
        if not any(each.outcome == "exceeded" for each in found):
            self._suspended.pop(place, None)
            if asked.uid and asked.version:
                self._remembered[asked] = found
                self._remembered_characters += _characters(found)
                while self._remembered_characters > _REMEMBERED_CHARACTERS:
                    self._remembered_characters -= _characters(self._remembered.popitem(last=False)[1])
            return
        before = self._suspended.pop(place, None)
        times = before.times + 1 if before is not None else 1
        until = self._clock.monotonic() + _SUSPENSION.delay(times)
        self._suspended[place] = _Suspension(found, until, times)
        if len(self._suspended) > _SUSPENDED:
            self._suspended.popitem(last=False)


def _characters(answers: tuple[Answer, ...]) -> int:
    return sum(_OVERHEAD_CHARACTERS + each.characters for each in answers)
