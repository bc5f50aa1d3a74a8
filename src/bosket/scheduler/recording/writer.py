"""Writes a snapshot file in KAI's form, for `recorded` and KAI's tools.

`take` runs on the event loop and is fast, so that everything is of one moment; the objects are frozen, so `zipped` can
run in a thread while the scheduler goes on. It encodes objects one by one, because a single call that encodes ten
thousand pods would hold the interpreter's lock.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import msgspec

from bosket import __version__
from bosket.api.keys import QUEUE_LABEL
from bosket.api.time import format_micro_time
from bosket.kube.codec import codec_of
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import configuration_document
from bosket.scheduler.configuration.settings import Settings
from bosket.scheduler.recording.object_lists import LISTS
from bosket.scheduler.recording.recorded import (
    FILE_NAME,
    FLAG_DEFAULTS,
    NANOSECONDS,
    OwnPart,
    Parameters,
    Partition,
    Recorded,
)
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions

#: Flags of KAI's that nothing here depends on, and that its own tools want to see.
_OTHER_PARAMETERS = {"numOfStatusRecordingWorkers": 5}


def take(state: ClusterState, options: StateOptions, configuration: Configuration, now: float) -> Recorded:
    """What the scheduler knows now, with all that it would decide by."""
    return Recorded(
        configuration=configuration,
        parameters=parameters_of(options, configuration.settings),
        objects={name: state.objects(each.kind) for name, each in LISTS.items()},
        now=now,
        held=tuple(sorted(state.own.pods_backing_off(now))),
        usage=state.usage,
        commitments=state.own.commitments(now),
        pod_mix=state.pod_mix(now),
        run_times=state.run_times.entries(),
    )


def parameters_of(options: StateOptions, settings: Settings) -> Parameters:
    """The flags that these stand for."""
    return msgspec.structs.replace(
        FLAG_DEFAULTS,
        scheduler_name=options.scheduler_name,
        partition_params=Partition(options.node_pool_label, options.node_pool),
        stuck_in_releasing_threshold=round(options.stuck_in_releasing_seconds * NANOSECONDS),
        restrict_scheduling_nodes=options.worker_labels is not None,
        full_hierarchy_fairness=options.full_hierarchy_fairness,
        access_control=options.access_control,
        max_number_consolidation_preemptees=settings.max_consolidation_preemptees,
        schedule_csi_storage=settings.schedule_csi_storage,
        use_scheduling_signatures=settings.use_scheduling_signatures,
        allow_consolidating_reclaim=settings.allow_consolidating_reclaim,
        global_default_staleness_grace_period=round(settings.default_staleness_grace_seconds * NANOSECONDS),
        queue_label_key=QUEUE_LABEL,
        detailed_fit_errors=settings.detailed_fit_errors,
    )


def zipped(recorded: Recorded, discovery: dict[str, Any] | None = None) -> bytes:
    """The snapshot file, without what is secret. `discovery` says which kinds the API server served."""
    buffer = io.BytesIO()
    entry = zipfile.ZipInfo(FILE_NAME)  # dated 1980, so that equal states give equal files
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(buffer, "w") as archive, archive.open(entry, "w", force_zip64=True) as file:
        for part in _document(recorded, discovery):
            file.write(part)
    return buffer.getvalue()


def _document(recorded: Recorded, discovery: dict[str, Any] | None) -> Iterator[bytes]:
    parameters = {**msgspec.to_builtins(recorded.parameters), **_OTHER_PARAMETERS}
    time = format_micro_time(recorded.now) if recorded.now is not None else ""
    own = OwnPart(
        __version__,
        time,
        recorded.held,
        recorded.usage,
        recorded.commitments,
        recorded.pod_mix,
        recorded.run_times,
    )
    yield b'{"bosket":' + msgspec.json.encode(own)
    yield b',"config":' + msgspec.json.encode(configuration_document(recorded.configuration))
    yield b',"schedulerParams":' + msgspec.json.encode(parameters)
    yield b',"discovery":' + msgspec.json.encode(discovery) if discovery is not None else b""
    yield b',"rawObjects":{'
    for number, name in enumerate(LISTS):
        yield (b"," if number else b"") + msgspec.json.encode(name) + b":["
        yield from _objects(recorded, name)
        yield b"]"
    yield b"}}"


def _objects(recorded: Recorded, name: str) -> Iterator[bytes]:
    """One list, in order of keys."""
    each = LISTS[name]
    encode = codec_of(each.kind).encode
    comma = b""
    for obj in sorted(recorded.objects.get(name, ()), key=lambda obj: obj.key):
        yield comma + encode(each.redact(obj))
        comma = b","
