"""The records of a flight recording, and how they stand in a file.

A file begins with a keyframe, which holds all objects; each cycle after it holds what changed since, and the outcome
what was decided. Records are JSON documents, one in a line. Those that are written together are a frame: its length, a
checksum, and the documents. All frames of a file are one zlib stream that is flushed after each of them: a pod that
looks like an earlier one takes a hundred bytes, and nothing waits in a buffer. A process that is killed leaves at most
one incomplete frame, at the end of its newest file; readers stop there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, Literal

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.pod_mix import PodMix
from bosket.scheduler.model.proposal import Proposal
from bosket.scheduler.model.run_times import EndedJob
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.recording.recorded import Parameters
from bosket.scheduler.state.own.memory import Commitments

#: What a cycle was for: `whole` places and searches at once; otherwise one places while another searches beside it, and
#: a `check` tries what a search found on a newer snapshot.
CycleKind = Literal["whole", "place", "search", "check"]

MAGIC: Final = b"BOSKET-FLIGHT-1\n"
SUFFIX: Final = ".flight"
_HEADER: Final = struct.Struct("<II")
#: A keyframe with 40,000 pods has 100 MB before it is compressed.
MOST_BYTES: Final = 1 << 30
#: Of zlib's levels, the cheapest: most of what can be saved is saved by what frames have in common.
_LEVEL: Final = 1


class Own(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the scheduler knew beside the objects. In a cycle, a field that is absent is as it was before."""

    held: tuple[ObjectKey, ...] | None = None  #: pods whose binding failed a short while ago
    commitments: Commitments | None = None
    usage: Usage | None = None
    #: jobs that have ended, the oldest first; in a cycle those that were added
    run_times: tuple[EndedJob, ...] = ()
    pod_mix: PodMix | None = None  #: recorded in each cycle where the placement strategy depends on it


class Settings(msgspec.Struct, frozen=True):
    """What the scheduler decided by."""

    config: dict[str, Any]
    parameters: Parameters


class Keyframe(msgspec.Struct, frozen=True, omit_defaults=True, tag="keyframe"):
    """Everything, as of one moment."""

    version: str  #: of Bosket
    run: str  #: of one process; its files are numbered
    file: int
    time: float
    settings: Settings
    own: Own
    objects: dict[str, list[msgspec.Raw]]  #: by the name of the list, as in a snapshot file
    digest: str  #: of all objects


class Cycle(msgspec.Struct, frozen=True, omit_defaults=True, tag="cycle"):
    """What a cycle was decided on."""

    number: int
    time: float
    kind: CycleKind
    digest: str  #: of all objects
    put: dict[str, list[msgspec.Raw]] = {}  #: objects that are new or changed, by the name of the list
    gone: dict[str, list[ObjectKey]] = {}
    own: Own | None = None
    settings: Settings | None = None  #: if they changed
    tried: list[ObjectKey] | None = None  #: the jobs that the cycle looked at, if it left others out
    left_out: list[ObjectKey] | None = None  #: or the jobs that it left out, if these are fewer
    proposals: list[Proposal] | None = None  #: what a check was about
    quarantined: list[str] = []  #: what the scheduler failed with before and went without: the cycle can't be replayed


class BoundPod(msgspec.Struct, frozen=True, array_like=True):
    """A pod that was given a node."""

    pod: ObjectKey
    node: str


class PipelinedPod(msgspec.Struct, frozen=True, array_like=True):
    """A pod for which a node is kept until others have left it."""

    pod: ObjectKey
    node: str
    action: str


class EvictedPod(msgspec.Struct, frozen=True, array_like=True):
    """A pod that has to leave its node."""

    pod: ObjectKey
    node: str
    action: str
    preemptor: ObjectKey | None
    moves_to: str
    lost_gpu_hours: float


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, tag="outcome"):
    """What came of a cycle."""

    number: int  #: of the cycle
    digest: str = ""  #: of all that was decided; empty if nothing was, because of an error
    binds: list[BoundPod] = []
    pipelined: list[PipelinedPod] = []
    evictions: list[EvictedPod] = []
    waiting: int = 0  #: jobs with a reason why they wait
    cpu_seconds: float = 0.0
    error: str = ""


Record = Keyframe | Cycle | Outcome
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


class DamagedFrame(ValueError):
    """A frame that isn't as it was written."""


class FrameWriter:
    """Makes the frames of one file."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(_LEVEL)

    def frame(self, records: Sequence[Record]) -> bytes:
        """The records as the file's next frame."""
        stream = self._stream
        packed = stream.compress(_ENCODER.encode_lines(records)) + stream.flush(zlib.Z_SYNC_FLUSH)
        return _HEADER.pack(len(packed), zlib.crc32(packed)) + packed


def records(file: BinaryIO) -> Iterator[Record]:
    """The records of a file, from behind its magic; ends before an incomplete frame, which is still being written.

    Raises `DamagedFrame`.
    """
    stream = zlib.decompressobj()
    while True:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        length, checksum = _HEADER.unpack(header)
        if length > MOST_BYTES:
            raise DamagedFrame(f"a frame of {length} bytes")
        packed = file.read(length)
        if len(packed) < length:
            return
        if zlib.crc32(packed) != checksum:
            raise DamagedFrame("the checksum is wrong")
        yield from _decode(packed, stream)


def _decode(packed: bytes, stream: zlib._Decompress) -> list[Record]:
    try:
        lines = stream.decompress(packed, MOST_BYTES)
        if stream.unconsumed_tail:
            raise DamagedFrame(f"more than {MOST_BYTES} bytes")
        return _DECODER.decode_lines(lines)
    except (zlib.error, msgspec.DecodeError) as error:
        raise DamagedFrame(str(error)) from error
