"""FlightWriter: encodes what the scheduler hands over, and keeps the files within their bounds; in its own thread.

The scheduler hands over references to frozen objects, which takes microseconds; encoding, compressing and writing them
is done here, a few times a second. What was written once is there when the process is killed. A disk that fails or is
full stops the recording for a while and never the scheduler.
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
    FrameWriter,
    Keyframe,
    Outcome,
    Own,
    PipelinedPod,
    Record,
    Settings,
)
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import Recorded

_log = logging.getLogger(__name__)

_NAMES: Final[Mapping[type[KubeObject], str]] = {each.kind: name for name, each in LISTS.items()}
#: A recording has at least so many files: the oldest is deleted where it becomes too large.
_FILES: Final = 32
#: A bound below this leaves no room for two keyframes.
LEAST_BYTES: Final = 1 << 20
#: Records that wait to be written; with more, the disk is too slow, and the recording begins anew with a keyframe.
MOST_WAITING: Final = 5_000
#: After a disk failed, the recording goes on no earlier.
PAUSE_SECONDS: Final = 30.0
#: What comes within so long is written at once: a kill loses no more than that, and small cycles cost little.
GATHER_SECONDS: Final = 0.25
#: So often the operating system is asked to bring what was written to the disk.
SYNC_SECONDS: Final = 1.0
_FLUSH_SECONDS: Final = 10.0
#: Whoever closes the recording waits no longer: the lease is to be given back meanwhile.
_CLOSE_SECONDS: Final = 1.0


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
        self._hurry = threading.Event()  # somebody waits for what was handed over to be written
        self._file: BinaryIO | None = None
        self._frames = FrameWriter()
        self._size = self._size_at_first = 0  # of the file, and of its keyframe
        self._began_at = 0.0  # the file
        self._digest = ObjectsDigest()
        self._not_before = 0.0  # after a failure
        self._unsynced_since: float | None = None
        #: whether the next cycle must begin with everything; read and written by both threads
        self.needs_keyframe = True
        self.written_bytes = 0  #: so far

    # Called by the scheduler

    def put(self, item: Item) -> None:
        """Hands something over to be written."""
        if self._thread is None or not self._thread.is_alive():
            self._hurry.clear()
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
            self._hurry.set()
            done.wait(_FLUSH_SECONDS)

    @property
    def is_paused(self) -> bool:
        """Whether nothing can be written for a while, because the disk failed."""
        return self._monotonic() < self._not_before

    def close(self) -> None:
        """Writes what was handed over, and ends."""
        if self._thread is not None and self._thread.is_alive():
            self._queue.put(None)
            self._hurry.set()
            self._thread.join(_CLOSE_SECONDS)
        self.needs_keyframe = True

    # In the thread

    def _work(self) -> None:
        while True:
            try:
                items = [self._queue.get(timeout=SYNC_SECONDS)]
            except queue.Empty:
                self._sync(at_once=True)
                continue
            self._hurry.wait(GATHER_SECONDS)
            with contextlib.suppress(queue.Empty):
                while True:
                    items.append(self._queue.get_nowait())
            self._write_items([each for each in items if not isinstance(each, threading.Event | None)])
            for each in items:
                if isinstance(each, threading.Event):
                    self._hurry.clear()
                    each.set()
            self._sync(at_once=False)
            if None in items:
                break
        self._end_file()

    def _write_items(self, items: Sequence[Item]) -> None:
        """Writes items in as few frames as may be: a file begins with its keyframe."""
        gathered: list[Record] = []
        try:
            for each in items:
                if isinstance(each, Recorded):
                    self._write(gathered)
                    gathered = []
                    self._begin_file(each)
                elif self._file is not None:  # otherwise after a failure, until the next keyframe
                    gathered.append(self._record(each))
            self._write(gathered)
        except OSError as error:
            self._give_up(error.strerror or str(error))
        except Exception as error:  # an object that can't be encoded must not end the recording for good
            _log.exception("a cycle can't be recorded")
            self._give_up(f"{type(error).__name__}: {error}")
        is_old = self._monotonic() - self._began_at > self._bounds.most_seconds / _FILES
        if is_old or self._size - self._size_at_first > max(self._size_at_first, self._bounds.most_bytes // _FILES):
            self.needs_keyframe = True

    def _record(self, item: tuple[Cycle, Sequence[Change]] | Decided) -> Record:
        if isinstance(item, Decided):
            return _outcome(item)
        return self._with_changes(*item)

    def _begin_file(self, recorded: Recorded) -> None:
        if self.is_paused:
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
        own = Own(recorded.held, recorded.commitments, recorded.usage, recorded.run_times, recorded.pod_mix)
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
        self._size, self._frames, self._began_at = len(MAGIC), FrameWriter(), self._monotonic()
        self._file.write(MAGIC)
        self._write([keyframe])
        self._size_at_first = self._size
        if 2 * self._size > self._bounds.most_bytes:
            _log.warning(
                "the recording needs more room: all objects take %.1f MiB, and it may have %.1f MiB",
                self._size / 2**20,
                self._bounds.most_bytes / 2**20,
            )

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

    def _write(self, records: Sequence[Record]) -> None:
        if self._file is None or not records:
            return
        data = memoryview(self._frames.frame(records))
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

    def _give_up(self, why: str) -> None:
        self._not_before = self._monotonic() + PAUSE_SECONDS
        self.needs_keyframe = True
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        _log.warning("cycles aren't recorded for %.0f s: %s", PAUSE_SECONDS, why, extra={"folder": str(self.folder)})


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
