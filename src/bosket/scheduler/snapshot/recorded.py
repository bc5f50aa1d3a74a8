"""Recorded snapshots: what KAI's `GET /get-snapshot` gives, as a file, read back.

A recording is `snapshot.zip` with one file `snapshot.json` in it, or that JSON by itself: the scheduler's
configuration, its parameters and all Kubernetes objects it saw. `replay` and the conformance tests read it here. What
is absent has Go's zero value, because KAI leaves empty fields out; what can't be read is an error that names the file
and the field.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from bosket.api.core import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from bosket.api.kai import BindRequest, PodGroup, Queue
from bosket.api.keys import SCHEDULER_NAME
from bosket.api.meta import PartialObjectMetadata
from bosket.api.object import KubeObject
from bosket.api.scheduling_k8s import PriorityClass
from bosket.api.storage import StorageClass
from bosket.kube.codec import gc_paused, strip_nulls
from bosket.scheduler.framework.configuration import Configuration, ConfigurationError, configuration_from
from bosket.scheduler.framework.settings import Settings
from bosket.scheduler.snapshot.snapshot import Snapshot, WorkerLabels
from bosket.scheduler.snapshot.state import ClusterState, StateOptions

FILE_NAME = "snapshot.json"
NANOSECOND = 1e-9


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

    def state_options(self) -> StateOptions:
        """What the live state must know of them. A scheduler without a name, or one for which every pod that is being
        deleted hangs, doesn't exist: such a recording is of a version that didn't write the field."""
        defaults, shard = StateOptions(), self.partition_params or Partition()
        return StateOptions(
            scheduler_name=self.scheduler_name or SCHEDULER_NAME,
            stuck_in_releasing_seconds=self.stuck_in_releasing_threshold * NANOSECOND
            or defaults.stuck_in_releasing_seconds,
            node_pool_label=shard.node_pool_label_key or defaults.node_pool_label,
            node_pool=shard.node_pool_label_value,
            worker_labels=WorkerLabels() if self.restrict_scheduling_nodes else None,
            full_hierarchy_fairness=self.full_hierarchy_fairness,
        )

    def settings(self) -> Settings:
        """What actions must know of them."""
        return Settings(
            max_consolidation_preemptees=self.max_number_consolidation_preemptees,
            use_scheduling_signatures=self.use_scheduling_signatures,
            allow_consolidating_reclaim=self.allow_consolidating_reclaim,
            default_staleness_grace_seconds=self.global_default_staleness_grace_period * NANOSECOND,
        )


#: KAI's flags where a recording has no parameters at all.
FLAG_DEFAULTS = Parameters(
    max_number_consolidation_preemptees=16,
    use_scheduling_signatures=True,
    full_hierarchy_fairness=True,
    allow_consolidating_reclaim=True,
    global_default_staleness_grace_period=60 * 10**9,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One list of a recording: what it holds, and how the state takes it."""

    struct: type[KubeObject]
    put: Callable[[ClusterState, Any], None]
    sharded: bool = False  #: whether only those of the scheduler's own node pool count


#: In this order: pods last, because they are judged by what else is there.
_LISTS: Mapping[str, _Kind] = {
    "nodes": _Kind(Node, ClusterState.put_node, sharded=True),
    "priorityClasses": _Kind(PriorityClass, ClusterState.put_priority_class),
    "queues": _Kind(Queue, ClusterState.put_queue, sharded=True),
    "podGroups": _Kind(PodGroup, ClusterState.put_pod_group, sharded=True),
    "namespaces": _Kind(Namespace, ClusterState.put_namespace),  # Bosket's own; KAI records none
    "configMaps": _Kind(PartialObjectMetadata, ClusterState.put_config_map),
    "storageClasses": _Kind(StorageClass, ClusterState.put_storage_class),
    "persistentVolumes": _Kind(PersistentVolume, ClusterState.put_volume),
    "persistentVolumeClaims": _Kind(PersistentVolumeClaim, ClusterState.put_claim),
    "bindRequests": _Kind(BindRequest, ClusterState.put_bind_request),
    "pods": _Kind(Pod, ClusterState.put_pod),
}


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What a recording holds. The configuration is as recorded: it may name actions and plugins that aren't there."""

    configuration: Configuration
    parameters: Parameters
    objects: Mapping[str, tuple[KubeObject, ...]]  #: by the name of the list

    def state(self, report: Callable[[str], None] | None = None) -> ClusterState:
        """A state that has seen all objects of the shard."""
        state = ClusterState(self.parameters.state_options(), report)
        shard = self.parameters.partition_params or Partition()
        with gc_paused():
            for name, kind in _LISTS.items():
                for obj in self.objects.get(name, ()):
                    if not kind.sharded or shard.has(obj):
                        kind.put(state, obj)
        return state

    def snapshot(self, now: float) -> Snapshot:
        with gc_paused():
            return self.state().snapshot(now)


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    config: dict[str, Any] | None = None
    scheduler_params: Parameters | None = None
    raw_objects: dict[str, msgspec.Raw] | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def load(path: Path) -> Recorded:
    """Reads a recording from a file, zipped or not."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordedError(f"{path}: {error.strerror}") from error
    if data[:2] == b"PK":
        data = _unzip(path, data)
    return read(data, str(path))


def read(data: bytes, source: str = FILE_NAME) -> Recorded:
    """Reads a recording's JSON; `source` is what errors call it."""
    try:
        envelope = _ENVELOPE.decode(data)
    except msgspec.DecodeError as error:
        path, text = _place_and_text(error)
        raise RecordedError(f"{source}: {path.lstrip('.')}: {text}" if path else f"{source}: {text}") from error
    if envelope.raw_objects is None:
        raise RecordedError(f"{source}: rawObjects is missing: this is no snapshot of a KAI scheduler")
    try:
        configuration = configuration_from(envelope.config or {})
    except ConfigurationError as error:
        raise RecordedError(f"{source}: config: {error}") from error
    with gc_paused():
        objects = {
            name: _objects(f"{source}: rawObjects.{name}", envelope.raw_objects[name], kind.struct)
            for name, kind in _LISTS.items()
            if name in envelope.raw_objects
        }
    parameters = envelope.scheduler_params or FLAG_DEFAULTS
    return Recorded(replace(configuration, settings=parameters.settings()), parameters, objects)


def _unzip(path: Path, data: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.read(FILE_NAME)
    except (zipfile.BadZipFile, OSError) as error:
        raise RecordedError(f"{path}: not a readable zip file: {error}") from error
    except KeyError:
        raise RecordedError(f"{path}: the zip file has no {FILE_NAME} in it") from None


def _objects(source: str, raw: msgspec.Raw, struct: type[KubeObject]) -> tuple[KubeObject, ...]:
    """One list of objects. Go writes null where a list or map is empty but not left out; that takes a second look."""
    try:
        return tuple(msgspec.json.decode(raw, type=list[struct]))  # type: ignore[valid-type]
    except msgspec.DecodeError:
        items = msgspec.json.decode(raw)
    if items is None:
        return ()
    if not isinstance(items, list):
        raise RecordedError(f"{source} must be a list, it is {type(items).__name__}")
    return tuple(_object(f"{source}[{number}]", item, struct) for number, item in enumerate(items))


def _object(source: str, item: Any, struct: type[KubeObject]) -> KubeObject:
    try:
        return msgspec.convert(strip_nulls(item), struct)
    except msgspec.ValidationError as error:
        path, text = _place_and_text(error)
        raise RecordedError(f"{source}{path}{_named(item)}: {text}") from error


def _named(item: Any) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f" ({name})" if name else ""


def _place_and_text(error: msgspec.DecodeError) -> tuple[str, str]:
    """msgspec's "… - at `$.spec.queue`", taken apart."""
    text, _, path = str(error).partition(" - at `$")
    return path.rstrip("`"), text
