"""FlightRecording: a folder of flight files, read back cycle by cycle, also while the scheduler still writes to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from bosket.api.object import KubeObject, ObjectKey
from bosket.api.time import format_time
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.file import configuration_from
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.flight.digest import ObjectsDigest
from bosket.scheduler.recording.flight.frames import (
    MAGIC,
    SUFFIX,
    Cycle,
    DamagedFrame,
    Keyframe,
    Outcome,
    Own,
    Record,
    Settings,
    records,
)
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import Recorded, RecordedError
from bosket.scheduler.state.own.memory import Commitments
from bosket.scheduler.state.run_times import MOST_JOBS

_DECODERS: Final = {name: msgspec.json.Decoder(each.kind) for name, each in LISTS.items()}


class RecordingError(RecordedError):
    """A recording that can't be read, or doesn't reach back so far."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A cycle, and the cluster as it saw it."""

    run: str  #: of one process
    cycle: Cycle
    recorded: Recorded
    version: str  #: of Bosket then

    def snapshot(self, report: Callable[[str], None] | None = None) -> Snapshot:
        """What the cycle was decided on."""
        whole = self.recorded.snapshot(self.cycle.time, report)
        tried, left_out = self.cycle.tried, self.cycle.left_out
        if tried is None and left_out is None:
            return whole
        if tried is not None:
            kept = set(tried)
            return replace(whole, unsettled=tuple(job for job in whole.unsettled if job.key in kept))
        gone = set(left_out or ())
        return replace(whole, unsettled=tuple(job for job in whole.unsettled if job.key not in gone))


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What came of a cycle that was read before."""

    run: str
    outcome: Outcome


class FlightRecording:
    """The flight files in a folder."""

    def __init__(self, folder: Path, report: Callable[[str], None] | None = None) -> None:
        """`report` gets a sentence for each file that is damaged; what is whole before that is read."""
        self.folder, self._report = folder, report or (lambda _: None)
        if not folder.is_dir():
            raise RecordingError(f"{folder}: there is no such folder")
        if not any(folder.glob(f"*{SUFFIX}")):
            raise RecordingError(f"{folder}: no flight recording is in it (bosket up and bosket run write them)")

    def files(self) -> list[Path]:
        """The oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def at(self, time: float) -> Moment:
        """The last cycle until then."""
        for path in reversed(self.files()):
            found: Moment | None = None
            for each in self._read(path, time):
                if isinstance(each, Moment):
                    found = each
            if found is not None:
                return found
        first = next(iter(self.cycles()), None)
        begins = f"it begins at {format_time(first.cycle.time)}" if isinstance(first, Moment) else "it has no cycle"
        raise RecordingError(f"{self.folder}: nothing is recorded at {format_time(time)} or before; {begins}")

    def cycles(self, since: float = 0.0, until: float = float("inf")) -> Iterator[Moment | Decided]:
        """Cycles from `since` to `until`, and what came of them, in the order in which they were written."""
        files = self.files()
        begins = [_first_time(path) for path in files]
        for number, path in enumerate(files):
            ends = next((each for each in begins[number + 1 :] if each is not None), None)
            if (begins[number] or 0.0) > until or (ends is not None and ends <= since):
                continue
            for each in self._read(path, until):
                if isinstance(each, Decided) or each.cycle.time >= since:
                    yield each

    def _read(self, path: Path, until: float) -> Iterator[Moment | Decided]:
        replica: _Replica | None = None
        try:
            for record in _records(path):
                if isinstance(record, Keyframe):
                    replica = _Replica(path, record)
                elif replica is None:
                    raise RecordingError(f"{path}: it doesn't begin with a keyframe")
                elif isinstance(record, Outcome):
                    yield Decided(replica.run, record)
                elif record.time > until:
                    return
                else:
                    yield replica.follow(record)
        except (RecordingError, DamagedFrame, OSError, msgspec.DecodeError, ConfigurationError) as error:
            text = str(error)
            self._report(text if text.startswith(str(path)) else f"{path}: {text}; what comes after is left out")


class _Replica:
    """The cluster as a file has it so far."""

    def __init__(self, path: Path, keyframe: Keyframe) -> None:
        self.run = keyframe.run
        self._path, self._version, self._digest = path, keyframe.version, ObjectsDigest()
        self._objects: dict[str, dict[ObjectKey, KubeObject]] = {name: {} for name in LISTS}
        self._lists: dict[str, tuple[KubeObject, ...]] = {}
        self._own = keyframe.own
        self._follow_settings(keyframe.settings)
        for name, documents in keyframe.objects.items():
            for document in documents:
                self._put(name, document)
        self._check(keyframe.digest)

    def follow(self, cycle: Cycle) -> Moment:
        """The cluster as the cycle saw it."""
        for name, documents in cycle.put.items():
            for document in documents:
                self._put(name, document)
        for name, keys in cycle.gone.items():
            for key in keys:
                if name in LISTS and self._objects[name].pop(key, None) is not None:
                    self._digest.drop(name, key)
            self._lists.pop(name, None)
        self._check(cycle.digest)
        if cycle.settings is not None:
            self._follow_settings(cycle.settings)
        if cycle.own is not None:
            self._own = _updated(self._own, cycle.own)
        for name, known in self._objects.items():
            if name not in self._lists:
                self._lists[name] = tuple(known.values())
        own = self._own
        recorded = Recorded(
            self._configuration,
            self._parameters,
            dict(self._lists),
            cycle.time,
            own.held or (),
            commitments=own.commitments or Commitments(),
            run_times=own.run_times,
            pod_mix=own.pod_mix,
        )
        if own.usage is not None:
            recorded = replace(recorded, usage=own.usage)
        return Moment(self.run, cycle, recorded, self._version)

    def _put(self, name: str, document: msgspec.Raw) -> None:
        if name not in LISTS:
            return  # of a later version; its digest says that the recording isn't understood
        obj = _DECODERS[name].decode(document)
        self._objects[name][obj.key] = obj
        self._digest.put(name, obj.key, bytes(document))
        self._lists.pop(name, None)

    def _follow_settings(self, settings: Settings) -> None:
        self._parameters = settings.parameters
        self._configuration = replace(configuration_from(settings.config), settings=settings.parameters.settings())

    def _check(self, digest: str) -> None:
        if digest != self._digest.text:
            raise RecordingError(f"{self._path}: objects are missing or differ from what was written")


def _updated(before: Own, after: Own) -> Own:
    changes = {name: value for name in Own.__struct_fields__ if (value := getattr(after, name)) is not None}
    changes["run_times"] = (*before.run_times, *after.run_times)[-MOST_JOBS:]
    return msgspec.structs.replace(before, **changes)


def _records(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedFrame("it isn't a flight recording")
        yield from records(file)


def _first_time(path: Path) -> float | None:
    """When the file begins; None if that can't be read."""
    try:
        first = next(_records(path), None)
    except (DamagedFrame, OSError):
        return None
    return first.time if isinstance(first, Keyframe) else None
