"""The records of a flight recording, and how they stand in a file.

A file begins with a keyframe, which holds all objects; each cycle after it holds what changed since, and the outcome
what was decided. A frame is its length, a checksum and a JSON document, zlib-compressed where that makes it shorter. A
process that is killed leaves at most one incomplete frame, at the end of its newest file; readers stop there.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.pod_mix import PodMix
from bosket.scheduler.model.proposal import Proposal
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.recording.recorded import Parameters
from bosket.scheduler.state.own.memory import Commitments

#: What a cycle was for: `whole` places and searches at once; otherwise one places while another searches beside it, and
#: a `check` tries what a search found on a newer snapshot.
CycleKind = Literal["whole", "place", "search", "check"]

MAGIC: Final = b"BOSKET-FLIGHT-1\n"
SUFFIX: Final = ".flight"
_HEADER: Final = struct.Struct("<II")
_COMPRESSED: Final = 1 << 31  # in a frame's length
#: A frame of a keyframe with 40,000 pods has 100 MB before it is compressed.
MOST_BYTES: Final = 1 << 30
#: Documents this short gain nothing by compression.
_SHORT: Final = 128


class Own(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the scheduler knew beside the objects. In a cycle, a field that is absent is as it was before."""

    held: tuple[ObjectKey, ...] | None = None  #: pods whose binding failed a short while ago
    commitments: Commitments | None = None
    usage: Usage | None = None
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
    waiting: int = 0  #: jobs that were told why they wait
    cpu_seconds: float = 0.0
    error: str = ""


Record = Keyframe | Cycle | Outcome
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


class DamagedFrame(ValueError):
    """A frame that isn't as it was written."""


def frame(record: Record) -> bytes:
    """The record as a frame."""
    document = _ENCODER.encode(record)
    flag = 0
    if len(document) > _SHORT and len(packed := zlib.compress(document, 6)) < len(document):
        document, flag = packed, _COMPRESSED
    return _HEADER.pack(len(document) | flag, zlib.crc32(document)) + document


def records(file: BinaryIO) -> Iterator[Record]:
    """The records of a file, from where it stands; ends before an incomplete frame, which is still being written.

    Raises `DamagedFrame`.
    """
    while True:
        header = file.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        length, checksum = _HEADER.unpack(header)
        is_compressed, length = bool(length & _COMPRESSED), length & ~_COMPRESSED
        if length > MOST_BYTES:
            raise DamagedFrame(f"a frame of {length} bytes")
        document = file.read(length)
        if len(document) < length:
            return
        if zlib.crc32(document) != checksum:
            raise DamagedFrame("the checksum is wrong")
        yield _decode(document, is_compressed=is_compressed)


def _decode(document: bytes, *, is_compressed: bool) -> Record:
    try:
        if is_compressed:
            inflate = zlib.decompressobj()
            document = inflate.decompress(document, MOST_BYTES)
            if inflate.unconsumed_tail:
                raise DamagedFrame(f"more than {MOST_BYTES} bytes")
        return _DECODER.decode(document)
    except (zlib.error, msgspec.DecodeError) as error:
        raise DamagedFrame(str(error)) from error
