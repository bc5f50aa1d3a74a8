"""Memory: what the scheduler must know after a restart, as plain data, and its encoding.

It has nominations, preemptions, refused evictions, back-offs, and evictions that are decided and not observed yet.
`OwnDecisions` makes a `Memory` and restores one; `io.memory_store` keeps it in a ConfigMap. Each entry has the uid of
its object: entries about objects that are gone or replaced are dropped when the memory is restored.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from bosket.api.object import ObjectKey
from bosket.scheduler.model.nomination import Nomination
from bosket.scheduler.model.reservation import Reservation
from bosket.scheduler.model.run_times import EndedJob

#: The version of the format; a memory of another version is not read.
VERSION: Final = 1
#: A ConfigMap holds 1 MiB, and base64 makes four bytes of three.
MOST_BYTES: Final = 640 * 1024
#: The maximum size after decompression.
_MOST_PLAIN_BYTES: Final = 32 * 1024 * 1024


class UnreadableMemory(ValueError):
    """Bytes that are no memory of this version; the message says why."""


class KeptEviction(msgspec.Struct, frozen=True, array_like=True):
    """An eviction that was decided, and that the API server may not have been asked for."""

    pod: ObjectKey
    uid: str
    since: float  #: epoch seconds of the decision
    action: str
    text: str  #: why, for people


class KeptBackoff(msgspec.Struct, frozen=True, array_like=True):
    """The back-off of a pod: how often binding or evicting it failed, and until when it waits."""

    pod: ObjectKey
    uid: str
    failures: int
    until: float
    by: str = ""


class KeptJob(msgspec.Struct, frozen=True, array_like=True):
    """A job in the preemption history, and how often it came back and was preempted again."""

    job: ObjectKey
    uid: str
    generation: int
    rounds: int = 0
    last_evicted: float = 0.0
    came_back: bool = False


class KeptPreemption(msgspec.Struct, frozen=True, array_like=True):
    """The job `victim` was preempted by `preemptor`, which counts until then; both are one job that was passed over."""

    victim: ObjectKey
    preemptor: ObjectKey
    until: float


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that the next process must know, apart from the objects of the cluster."""

    version: int = VERSION
    nominations: tuple[Nomination, ...] = msgspec.field(default=(), name="claims")  #: the oldest first
    reservations: tuple[Reservation, ...] = ()
    run_times: tuple[EndedJob, ...] = ()  #: of jobs that have ended, the oldest first
    evictions: tuple[KeptEviction, ...] = ()
    refusals: tuple[KeptBackoff, ...] = ()  #: of evictions
    backoffs: tuple[KeptBackoff, ...] = msgspec.field(default=(), name="holds")  #: of pods whose binding failed
    jobs: tuple[KeptJob, ...] = ()
    preemptions: tuple[KeptPreemption, ...] = msgspec.field(default=(), name="displacements")
    #: digest of queues, nodes, priorities and topologies; preemptions count only while it is the same
    situation: str = ""

    @property
    def summary(self) -> str:
        """How much is remembered, as text for people."""
        return (
            f"{len(self.nominations)} claims, {len(self.evictions)} evictions under way, "
            f"{len(self.preemptions)} preemptions, {len(self.refusals)} refused evictions, "
            f"{len(self.backoffs)} failed bindings"
        )


NO_MEMORY: Final = Memory()
_decoder = msgspec.json.Decoder(Memory)


def encode(memory: Memory) -> bytes:
    """At most `MOST_BYTES`; what matters least is left out where that is too little."""
    encoded = b""
    for smaller in _ever_smaller(memory):
        encoded = zlib.compress(msgspec.json.encode(smaller), level=1)
        if len(encoded) <= MOST_BYTES:
            break
    return encoded


def decode(encoded: bytes) -> Memory:
    """Raises `UnreadableMemory`."""
    unfolding = zlib.decompressobj()
    try:
        plain = unfolding.decompress(encoded, _MOST_PLAIN_BYTES)
        if not unfolding.eof:
            raise UnreadableMemory(f"it is cut short, or longer than {_MOST_PLAIN_BYTES} bytes")
        memory = _decoder.decode(plain)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMemory(str(error)) from error
    if memory.version != VERSION:
        raise UnreadableMemory(f"its version is {memory.version}, and this scheduler reads {VERSION}")
    return memory


def _ever_smaller(memory: Memory) -> Iterator[Memory]:
    """First without run times, then without back-offs, then without preemptions, then with half as many nominations
    each time; the oldest stay, because they are served first. An eviction is dropped with its nomination: a nomination
    without its eviction would be taken for one whose victim stays."""
    yield memory
    memory = msgspec.structs.replace(memory, run_times=())
    yield memory
    memory = msgspec.structs.replace(memory, refusals=(), backoffs=())
    yield memory
    memory = msgspec.structs.replace(memory, jobs=(), preemptions=(), situation="")
    yield memory
    while memory.nominations or memory.evictions:
        nominations = memory.nominations[: len(memory.nominations) // 2]
        leaving = {pod for nomination in nominations for pod in nomination.leaving}
        evictions = tuple(each for each in memory.evictions if (each.pod, each.uid) in leaving)
        memory = msgspec.structs.replace(memory, nominations=nominations, evictions=evictions)
        yield memory


class Commitments(msgspec.Struct, frozen=True):
    """Own decisions that the cluster may not show yet."""

    evicted: tuple[ObjectKey, ...] = ()  #: pods whose eviction isn't observed yet
    refused: tuple[tuple[ObjectKey, str], ...] = ()  #: pods whose eviction was refused, with what refused it
    nominations: tuple[Nomination, ...] = msgspec.field(default=(), name="claims")
    #: jobs, and by which jobs they were preempted; a job that was passed over is listed as preempted by itself
    preempted_by: tuple[tuple[ObjectKey, tuple[ObjectKey, ...]], ...] = msgspec.field(default=(), name="takers")
    reservations: tuple[Reservation, ...] = ()
