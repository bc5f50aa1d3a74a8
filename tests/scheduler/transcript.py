"""Decisions as bytes: everything in them, in its order, down to the last digit. Equal decisions have equal transcripts.

`python -m tests.scheduler.transcript FILE` decides the recordings in a file, a JSON list, and prints a transcript of
each on a line: how the same input is decided in another process.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bosket.api.object import KubeObject
from bosket.scheduler.answers.line import Line
from bosket.scheduler.answers.outcome import answer
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.job import Job
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.model.task import Task
from bosket.scheduler.recording.object_lists import LISTS as RECORDED_LISTS
from bosket.scheduler.recording.recorded import read
from bosket.testing.cluster import NOW

Json = dict[str, Any]

#: The lists of a recording, by what they hold.
LISTS = {each.kind: name for name, each in RECORDED_LISTS.items()}


def recording_of(objects: Iterable[KubeObject]) -> Json:
    """These objects as a recorded snapshot."""
    lists: dict[str, list[Any]] = {}
    for each in objects:
        lists.setdefault(LISTS[type(each)], []).append(msgspec.to_builtins(each))
    return {"rawObjects": lists}


def snapshot_and_configuration(recording: Json) -> tuple[Snapshot, Configuration]:
    recorded = read(msgspec.json.encode(recording))
    return recorded.snapshot(NOW), known_part(recorded.configuration)[0]


def transcript(snapshot: Snapshot, decisions: Decisions) -> bytes:
    """Everything that was decided, and everything that is made of it."""
    line = Line(snapshot, decisions)
    order = [line.of(queue) for queue in sorted({each.job.queue for each in decisions.waiting})]
    return msgspec.json.encode([_plain(decisions), _plain(order), answer(snapshot, decisions)])


def decide_recording(recording: Json) -> bytes:
    snapshot, configuration = snapshot_and_configuration(recording)
    return transcript(snapshot, decide(snapshot, configuration))


def _plain(value: Any) -> Any:
    if isinstance(value, Job | Task):
        return str(value.key)
    if isinstance(value, msgspec.Struct):
        return _plain_record(value, value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        # The key by which waiting jobs are sorted shows in their order.
        return _plain_record(value, [each.name for each in dataclasses.fields(value) if each.name != "job_key"])
    if isinstance(value, Mapping):
        return [[str(key), _plain(each)] for key, each in value.items()]
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"a decision has a {type(value).__name__} in it, of which a transcript says nothing")


def _plain_record(value: object, names: Iterable[str]) -> list[Any]:
    """The name of the record's type, its text if it has one, and these fields."""
    text = str(value) if "__str__" in vars(type(value)) else ""
    return [type(value).__name__, text, *([name, _plain(getattr(value, name))] for name in names)]


if __name__ == "__main__":
    for each in msgspec.json.decode(Path(sys.argv[1]).read_bytes()):
        print(decide_recording(each).decode())
