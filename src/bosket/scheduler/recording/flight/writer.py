"""FlightWriter: encodes what the scheduler hands over, and keeps the files within their bounds; in its own thread.

The scheduler hands over references to frozen objects, which takes microseconds; encoding, compressing and writing them
is done here. Each frame is one write, so that a process that is killed loses only what it had not handed over yet. A
disk that fails or is full stops the recording for a while and never the scheduler.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from bosket import __version__
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.time import format_micro_time
from bosket.scheduler.configuration.file import configuration_document
from bosket.scheduler.model.decisions import Decisions, Pipeline
from bosket.scheduler.recording.flight.digest import ObjectsDigest, decisions_digest, encoded
from bosket.scheduler.recording.flight.frames import (
    MAGIC,
    SUFFIX,
    BoundPod,
    Cycle,
    EvictedPod,
    Keyframe,
    Outcome,
    Own,
    PipelinedPod,
    Record,
    Settings,
    frame,
)
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import Recorded

_log = logging.getLogger(__name__)

_NAMES: Final[Mapping[type[KubeObject], str]] = {each.kind: name for name, each in LISTS.items()}
#: A recording has about so many files: the oldest is deleted where it becomes too large.
_FILES: Final = 16
#: A bound below this leaves no room for two keyframes.
LEAST_BYTES: Final = 1 << 20
#: Records that wait to be written; with more, the disk is too slow, and the recording begins anew with a keyframe.
MOST_WAITING: Final = 5_000
#: After a disk failed, the recording goes on no earlier.
PAUSE_SECONDS: Final = 30.0
#: So often the operating system is asked to bring what was written to the disk.
SYNC_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is kept."""

    most_bytes: int = 256 << 20
    most_seconds: float = 7 * 86400.0


class Change(NamedTuple):
    """An object that changed; None: it is gone."""

    kind: type[KubeObject]
    key: ObjectKey
    obj: KubeObject | None


class Decided(NamedTuple):
    """What came of a cycle."""

    number: int
    decisions: Decisions | None
    cpu_seconds: float
    error: str


#: What is handed over: a keyframe, a cycle with its changes, or an outcome.
Item = Recorded | tuple[Cycle, Sequence[Change]] | Decided


class FlightWriter:
    """Writes one process's recording into a folder."""

    def __init__(self, folder: Path, bounds: Bounds, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.folder, self._bounds, self._monotonic = folder, bounds, monotonic
        self._run, self._files = secrets.token_hex(4), 0
        self._queue: queue.SimpleQueue[Item | threading.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file: BinaryIO | None = None
        self._size = self._size_at_first = 0  # of the file, and of its keyframe
        self._digest = ObjectsDigest()
        self._not_before = 0.0  # after a failure
        self._unsynced_since: float | None = None
        #: whether the next cycle must begin with everything; read and written by both threads
        self.needs_keyframe = True
        self.written_bytes = self.written_cycles = self.failures = 0  #: so far

    # Called by the scheduler

    def put(self, item: Item) -> None:
        """Hands something over to be written."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="flight-recorder", daemon=True)
            self._thread.start()
        if self._queue.qsize() > MOST_WAITING:
            self.needs_keyframe = True  # what isn't handed over would be missing
            return
        self._queue.put(item)

    def flush(self) -> None:
        """Waits until everything that was handed over is written."""
        if self._thread is not None and self._thread.is_alive():
            done = threading.Event()
            self._queue.put(done)
            done.wait(_CLOSE_SECONDS)

    def close(self) -> None:
        """Writes what was handed over, and ends."""
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(_CLOSE_SECONDS)
        self.needs_keyframe = True

    # In the thread

    def _work(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=SYNC_SECONDS)
            except queue.Empty:
                self._sync(at_once=True)
                continue
            if item is None:
                break
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                self._write_item(item)
            except OSError as error:
                self._give_up(error)
            self._sync(at_once=False)
        self._end_file()

    def _write_item(self, item: Item) -> None:
        if isinstance(item, Recorded):
            self._begin_file(item)
        elif self._file is None:
            pass  # after a failure, until the next keyframe
        elif isinstance(item, Decided):
            self._write(_outcome(item))
        else:
            cycle, changes = item
            self._write(self._with_changes(cycle, changes))
            self.written_cycles += 1
            if self._size - self._size_at_first > max(self._size_at_first, self._bounds.most_bytes // _FILES):
                self.needs_keyframe = True

    def _begin_file(self, recorded: Recorded) -> None:
        if self._monotonic() < self._not_before:
            self.needs_keyframe = True
            return
        self._end_file()
        self._digest = ObjectsDigest()
        objects: dict[str, list[msgspec.Raw]] = {}
        for name, known in recorded.objects.items():
            documents = objects[name] = []
            for obj in known:
                document = encoded(name, obj)
                self._digest.put(name, obj.key, document)
                documents.append(msgspec.Raw(document))
        own = Own(recorded.held, recorded.commitments, recorded.usage, recorded.pod_mix)
        settings = Settings(configuration_document(recorded.configuration), recorded.parameters)
        self._files += 1
        now = recorded.now or 0.0
        keyframe = Keyframe(__version__, self._run, self._files, now, settings, own, objects, self._digest.text)
        self._make_room()
        stamp = format_micro_time(now).replace(":", "").replace("-", "")
        path = self.folder / f"{stamp}-{self._run}-{self._files:06d}{SUFFIX}"
        # Unbuffered: what was written is there for readers, and stays when the process is killed.
        self._file = path.open("xb", buffering=0)
        path.chmod(0o600)
        self._size = 0
        self._file.write(MAGIC)
        self._write(keyframe)
        self._size_at_first = self._size

    def _with_changes(self, cycle: Cycle, changes: Sequence[Change]) -> Cycle:
        put: dict[str, list[msgspec.Raw]] = {}
        gone: dict[str, list[ObjectKey]] = {}
        for kind, key, obj in changes:
            name = _NAMES[kind]
            if obj is None:
                if self._digest.drop(name, key):
                    gone.setdefault(name, []).append(key)
                continue
            document = encoded(name, obj)
            if self._digest.put(name, key, document):
                put.setdefault(name, []).append(msgspec.Raw(document))
        return msgspec.structs.replace(cycle, put=put, gone=gone, digest=self._digest.text)

    def _write(self, record: Record) -> None:
        assert self._file is not None
        data = memoryview(frame(record))
        self._size += len(data)
        self.written_bytes += len(data)
        while data:
            data = data[self._file.write(data) :]
        if self._unsynced_since is None:
            self._unsynced_since = self._monotonic()

    def _sync(self, *, at_once: bool) -> None:
        since = self._unsynced_since
        if since is None or self._file is None or not (at_once or self._monotonic() - since >= SYNC_SECONDS):
            return
        self._unsynced_since = None
        with contextlib.suppress(OSError):  # a pipe, or a file system that can't
            os.fdatasync(self._file.fileno())

    def _end_file(self) -> None:
        self._sync(at_once=True)
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _make_room(self) -> None:
        """Deletes the oldest files, also of earlier processes, so that the next one stays within the bounds."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = sorted(self.folder.glob(f"*{SUFFIX}"))
        sizes = {path: path.stat() for path in files}
        left = (
            self._bounds.most_bytes - self._bounds.most_bytes // _FILES - sum(each.st_size for each in sizes.values())
        )
        oldest = time.time() - self._bounds.most_seconds
        for path in files:
            if left >= 0 and sizes[path].st_mtime >= oldest:
                continue
            path.unlink(missing_ok=True)
            left += sizes[path].st_size

    def _give_up(self, error: OSError) -> None:
        self.failures += 1
        self._not_before = self._monotonic() + PAUSE_SECONDS
        self.needs_keyframe = True
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        _log.warning(
            "cycles aren't recorded for %.0f s: %s", PAUSE_SECONDS, error.strerror or error,
            extra={"folder": str(self.folder)},
        )  # fmt: skip


def _outcome(decided: Decided) -> Outcome:
    decisions = decided.decisions
    if decisions is None:
        return Outcome(decided.number, error=decided.error, cpu_seconds=decided.cpu_seconds)
    last = decisions.outcome
    return Outcome(
        decided.number,
        decisions_digest(decisions),
        [BoundPod(each.task.key, each.node) for each in decisions.lasting_binds],
        [
            PipelinedPod(each.task.key, each.node, each.action)
            for each in decisions.pipelined
            if isinstance(last[each.task], Pipeline)
        ],
        [
            EvictedPod(
                each.task.key,
                each.node,
                each.action,
                each.preemptor.key if each.preemptor is not None else None,
                each.moves_to,
                round(each.lost_gpu_hours, 6),
            )
            for each in decisions.lasting_evictions
        ],
        len(decisions.waiting),
        round(decided.cpu_seconds, 6),
    )
