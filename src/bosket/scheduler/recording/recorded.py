"""Recorded snapshots: what `GET /get-snapshot` of KAI's scheduler, or of ours, gives, as a file, read back.

A recording is `snapshot.zip` with one file `snapshot.json` in it, or that JSON by itself: the scheduler's
configuration, its parameters and all Kubernetes objects it saw. `replay` and the conformance tests read it here;
`recording` writes it. What is absent has Go's zero value, because KAI leaves empty fields out; what can't be read is an
error that names the file and the field. Under `bosket` stands what KAI's format has no place for.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bosket.api.core import Pod
from bosket.api.kai import Queue, QueueResource, QueueResources
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.time import InvalidTime, parse_time
from bosket.kube.codec import gc_paused, strip_nulls
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError
from bosket.scheduler.configuration.file import configuration_from
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.model.pod_mix import PodMix
from bosket.scheduler.model.run_times import EndedJob
from bosket.scheduler.model.snapshot import Snapshot, WorkerLabels
from bosket.scheduler.model.usage import NO_USAGE, Usage
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.scheduler.state.own.memory import Commitments

FILE_NAME = "snapshot.json"
NANOSECONDS = 10**9  #: in a second
#: Of a recording, unzipped: several times what a cluster of 10,000 nodes has.
MOST_BYTES: Final = 2**30
#: Objects and values in it, likewise. Small ones take many times their text's length in memory.
MOST_PARTS: Final = {b"{": 10_000_000, b",": 40_000_000}
_ENCRYPTED: Final = 0x1  # of a zip entry's flags
#: Beside its own, the library lets through whatever goes wrong in what it is made of: methods that it doesn't have,
#: lengths that can't be, names that are no text.
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, NotImplementedError, RuntimeError,
    ArithmeticError, LookupError, UnicodeError,
)  # fmt: skip


class RecordedError(ValueError):
    """A recording that can't be read: which file, which field, what is wrong."""


class Partition(msgspec.Struct, frozen=True, rename="pascal"):
    """Which objects belong to the scheduler's shard: those whose label has the value, or lack the label."""

    node_pool_label_key: str = ""
    node_pool_label_value: str = ""

    def has(self, obj: KubeObject) -> bool:
        if not self.node_pool_label_key:
            return True
        return obj.metadata.labels.get(self.node_pool_label_key, "") == self.node_pool_label_value


class Parameters(msgspec.Struct, frozen=True, rename="camel"):
    """The scheduler's flags. Durations are in nanoseconds, as Go writes them."""

    scheduler_name: str = ""
    partition_params: Partition | None = None
    restrict_scheduling_nodes: bool = False
    max_number_consolidation_preemptees: int = 0
    schedule_csi_storage: bool = msgspec.field(default=False, name="scheduleCSIStorage")
    use_scheduling_signatures: bool = False
    full_hierarchy_fairness: bool = False
    allow_consolidating_reclaim: bool = False
    global_default_staleness_grace_period: int = 0
    stuck_in_releasing_threshold: int = 0
    queue_label_key: str = ""
    detailed_fit_errors: bool = False
    access_control: bool = False

    def state_options(self) -> StateOptions:
        """What the live state must know of them. A scheduler without a name, or one for which every pod that is being
        deleted hangs, doesn't exist: such a recording is of a version that didn't write the field."""
        defaults, shard = StateOptions(), self.partition_params or Partition()
        return StateOptions(
            scheduler_name=self.scheduler_name or SCHEDULER_NAME,
            stuck_in_releasing_seconds=self.stuck_in_releasing_threshold / NANOSECONDS
            or defaults.stuck_in_releasing_seconds,
            node_pool_label=shard.node_pool_label_key or defaults.node_pool_label,
            node_pool=shard.node_pool_label_value,
            worker_labels=WorkerLabels() if self.restrict_scheduling_nodes else None,
            full_hierarchy_fairness=self.full_hierarchy_fairness,
            access_control=self.access_control,
        )

    def settings(self) -> Settings:
        """What actions must know of them."""
        return Settings(
            max_consolidation_preemptees=self.max_number_consolidation_preemptees,
            use_scheduling_signatures=self.use_scheduling_signatures,
            allow_consolidating_reclaim=self.allow_consolidating_reclaim,
            default_staleness_grace_seconds=self.global_default_staleness_grace_period / NANOSECONDS,
            schedule_csi_storage=self.schedule_csi_storage,
            detailed_fit_errors=self.detailed_fit_errors,
        )


#: KAI's flags where a recording has no parameters at all.
FLAG_DEFAULTS = Parameters(
    max_number_consolidation_preemptees=16,
    use_scheduling_signatures=True,
    full_hierarchy_fairness=True,
    allow_consolidating_reclaim=True,
    global_default_staleness_grace_period=60 * 10**9,
)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What a recording holds. The configuration is as recorded: it may name actions and plugins that aren't there."""

    configuration: Configuration
    parameters: Parameters
    objects: Mapping[str, tuple[KubeObject, ...]]  #: by the name of the list
    now: float | None = None  #: when it was recorded; KAI doesn't say
    held: tuple[ObjectKey, ...] = ()  #: pods whose binding had failed, and that were to wait for a while
    unreadable: tuple[str, ...] = ()  #: which objects are left out, and why
    usage: Usage = NO_USAGE  #: what queues had used in the past; KAI doesn't say
    commitments: Commitments = field(default_factory=Commitments)
    pod_mix: PodMix | None = None  #: which pods had been seen; where nobody says so, those that are recorded
    run_times: tuple[EndedJob, ...] = ()  #: how long jobs ran that had ended, the oldest first

    def state(self, report: Callable[[str], None] | None = None) -> ClusterState:
        """A state that has seen all objects of the shard."""
        report = report or (lambda _: None)
        options = self.parameters.state_options()
        state = ClusterState(options, report)
        shard = self.parameters.partition_params or Partition()
        with gc_paused():
            for name, each in LISTS.items():
                put, objects = state.handlers(each.kind).put, self.objects.get(name, ())
                for obj in filter(shard.has, objects) if each.sharded else objects:
                    try:
                        put(obj)
                    except Exception as error:  # as the live scheduler: a defect, which must not hide the rest
                        report(f"{each.kind.__name__} {obj.key} is left out: {type(error).__name__}: {error}")
        uids = {pod.key: pod.metadata.uid for pod in self.objects.get("pods", ())} if self.held else {}
        for pod in self.held:
            state.own.back_off(pod, uids.get(pod, ""), self.now or 0.0)
        state.put_usage(self.usage)
        state.own.commit(self.commitments, self.now or 0.0)
        state.run_times.put(self.run_times)
        if self.pod_mix is not None:
            state.put_pod_mix(self.pod_mix, self.now or 0.0)
        return state

    def snapshot(self, now: float, report: Callable[[str], None] | None = None) -> Snapshot:
        with gc_paused():
            return self.state(report).snapshot(now)


class OwnPart(msgspec.Struct, frozen=True):
    """What Bosket knows besides."""

    version: str = ""  #: that wrote it
    time: str = ""
    held: tuple[ObjectKey, ...] = ()
    usage: Usage = NO_USAGE
    commitments: Commitments = Commitments()
    pod_mix: PodMix | None = None
    run_times: tuple[EndedJob, ...] = ()


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    config: dict[str, Any] | None = None
    scheduler_params: Parameters | None = None
    raw_objects: dict[str, msgspec.Raw] | None = None
    bosket: OwnPart = OwnPart()


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def load(path: str | Path) -> Recorded:
    """Reads a recording from a file, zipped or not."""
    try:
        file = Path(path)
        _check_size(str(path), file.stat().st_size)
        data = file.read_bytes()
    except OSError as error:
        raise RecordedError(f"{path}: {error.strerror}") from error
    return read(data, str(path))


def read(data: bytes, source: str = FILE_NAME) -> Recorded:
    """Reads a recording, zipped or not; `source` is what errors call it."""
    try:
        return _read(data, source)
    except RecursionError:
        raise RecordedError(f"{source}: it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise RecordedError(f"{source}: not UTF-8") from error


def _read(data: bytes, source: str) -> Recorded:
    envelope = _open(data, source)
    try:
        configuration = configuration_from(envelope.config or {})
    except ConfigurationError as error:
        raise RecordedError(f"{source}: config: {error}") from error
    raw_objects = envelope.raw_objects or {}
    unreadable: list[str] = []
    with gc_paused():
        objects = {
            name: _objects(f"{source}: rawObjects.{name}", raw_objects[name], each.kind, unreadable)
            for name, each in LISTS.items()
            if name in raw_objects
        }
    parameters, own = envelope.scheduler_params or FLAG_DEFAULTS, envelope.bosket
    try:
        now = parse_time(own.time) if own.time else None
    except InvalidTime as error:
        raise RecordedError(f"{source}: bosket.time: {error}") from error
    scheduler = parameters.state_options().scheduler_name
    objects["pods"] = tuple([_whole(pod, scheduler) for pod in objects.get("pods", ())])
    if not own.version and "queues" in objects:
        objects["queues"] = tuple(map(_as_kai_reads, objects["queues"]))
    followed = replace(configuration, settings=parameters.settings())
    return Recorded(
        followed,
        parameters,
        objects,
        now,
        own.held,
        tuple(unreadable),
        own.usage,
        own.commitments,
        own.pod_mix,
        own.run_times,
    )


def count(data: bytes, source: str = FILE_NAME) -> dict[str, int]:
    """How many objects there are in each list of a recording, also in those that aren't read."""
    try:
        raw_objects = _open(data, source).raw_objects or {}
        return {
            name: len(msgspec.json.decode(raw, type=list[msgspec.Raw] | None) or ())
            for name, raw in raw_objects.items()
        }
    except msgspec.DecodeError as error:
        raise RecordedError(f"{source}: rawObjects: {error}") from error
    except RecursionError:
        raise RecordedError(f"{source}: it is nested too deeply") from None


def _open(data: bytes, source: str) -> _Envelope:
    if data[:2] == b"PK":
        data = _unzip(source, data)
    for mark, most in MOST_PARTS.items():
        if data.count(mark) > most:
            raise RecordedError(f"{source}: it has more than {most:,} of {mark.decode()!r}, more than any cluster's")
    try:
        envelope = _ENVELOPE.decode(data)
    except msgspec.DecodeError as error:
        path, text = _place_and_text(error)
        raise RecordedError(f"{source}: {path.lstrip('.')}: {text}" if path else f"{source}: {text}") from error
    if envelope.raw_objects is None:
        raise RecordedError(f"{source}: rawObjects is missing: this is no snapshot of a KAI scheduler")
    return envelope


def _unzip(source: str, data: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if FILE_NAME not in archive.namelist():
                raise RecordedError(f"{source}: the zip file has no {FILE_NAME} in it")
            entry = archive.getinfo(FILE_NAME)
            if entry.flag_bits & _ENCRYPTED:
                raise RecordedError(f"{source}: {FILE_NAME} in the zip file is encrypted")
            _check_size(f"{source}: {FILE_NAME} in the zip file", entry.file_size)
            # What is said about its size may be a lie.
            with archive.open(entry) as file:
                content = file.read(MOST_BYTES + 1)
            _check_size(f"{source}: {FILE_NAME} in the zip file", len(content))
            return content
    except _ZIP_ERRORS as error:
        raise RecordedError(f"{source}: not a readable zip file: {' '.join(str(error).split())[:200]}") from error


def _check_size(what: str, size: int) -> None:
    if size > MOST_BYTES:
        raise RecordedError(f"{what} has {size / 1e6:,.0f} MB, at most {MOST_BYTES / 1e6:,.0f} are read")


def _whole(pod: KubeObject, scheduler_name: str) -> KubeObject:
    """KAI keeps no more of a pod that succeeded than its name and its group; it was ours if it has one."""
    if not isinstance(pod, Pod) or pod.status.phase != "Succeeded" or pod.spec.schedulerName or pod.spec.containers:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, schedulerName=scheduler_name))


def _as_kai_reads(queue: KubeObject) -> KubeObject:
    """A queue of a recording of KAI's, whose scheduler took a limit that is left out for 0, and so let nothing run."""
    if not isinstance(queue, Queue):
        return queue
    given = queue.spec.resources or QueueResources()

    def closed(share: QueueResource) -> QueueResource:
        return msgspec.structs.replace(share, limit=0.0) if share.limit is None else share

    resources = QueueResources(gpu=closed(given.gpu), cpu=closed(given.cpu), memory=closed(given.memory))
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, resources=resources))


def _objects(source: str, raw: msgspec.Raw, kind: type[KubeObject], unreadable: list[str]) -> tuple[KubeObject, ...]:
    """One list of objects; one that can't be read is left out by name. Go writes null where a list or map is empty
    but not left out; that takes a second look."""
    try:
        return tuple(msgspec.json.decode(raw, type=list[kind]))  # type: ignore[valid-type]
    except msgspec.DecodeError:
        pass
    try:
        items = msgspec.json.decode(raw, type=list[msgspec.Raw] | None)
    except msgspec.ValidationError:
        raise RecordedError(f"{source} must be a list, it is {type(msgspec.json.decode(raw)).__name__}") from None
    found = []
    for number, each in enumerate(items or ()):
        item = None
        try:
            item = msgspec.json.decode(each)
            found.append(msgspec.convert(strip_nulls(item), kind))
        except msgspec.DecodeError as error:
            path, text = _place_and_text(error)
            unreadable.append(f"{source}[{number}]{path}{_named(item)}: {text}; it is left out")
    return tuple(found)


def _named(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f" ({name})" if name else ""


def _place_and_text(error: msgspec.DecodeError) -> tuple[str, str]:
    """msgspec's "… - at `$.spec.queue`", taken apart."""
    text, _, path = str(error).partition(" - at `$")
    return path.rstrip("`"), text
