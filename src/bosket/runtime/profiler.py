"""A CPU profile of this process while it works: which functions the processor's time goes to, thread by thread.

A thread looks at the stacks of the others some hundred times a second, and asks the kernel how much CPU time each of
them has used since the last look; that is what its stack weighs. So a thread that waits weighs nothing, and the sum is
the CPU time that the process really used. Calls into C (numpy, a parser) count for the function that made them.

What limits it: Python lets the other thread look only now and then (every 5 ms at the least while one computes), so
that functions in between are seen as their neighbours; over seconds that evens out. Linux only: elsewhere nobody tells
the CPU time of a thread.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Final, NamedTuple

MOST_SECONDS: Final = 300.0
MOST_HERTZ: Final = 1000
#: What one profile may hold; what is seen beyond that weighs on one entry for all.
_MOST_STACKS: Final = 20_000
_DEEPEST: Final = 256
#: For clock_gettime: the time that the scheduler gave a thread. The clock's number follows from the thread's.
_THREAD_CPU_CLOCK: Final = 6


class Place(NamedTuple):
    """A function."""

    module: str
    name: str
    line: int


Stack = tuple[Place, ...]  #: outermost first

BEYOND: Final[Stack] = (Place("", "(more stacks than a profile holds)", 0),)


class NoThreadClocks(RuntimeError):
    """The platform doesn't tell how much CPU time a thread has used."""


@dataclass(slots=True)
class Profile:
    """What was seen."""

    #: By thread: CPU time by stack, in nanoseconds.
    threads: dict[str, dict[Stack, int]] = field(default_factory=dict)
    #: How often was looked, for how long, and what that itself took.
    samples: int = 0
    seconds: float = 0.0
    own_cpu_seconds: float = 0.0

    @property
    def cpu_seconds(self) -> float:
        return sum(sum(stacks.values()) for stacks in self.threads.values()) / 1e9


def take_profile(seconds: float, hertz: int, stop: threading.Event) -> Profile:
    """Look at all other threads for that long, or until `stop`. To be called in a thread of its own.

    Raises `NoThreadClocks`.
    """
    if not sys.platform.startswith("linux"):
        raise NoThreadClocks("CPU profiles need Linux: elsewhere nobody tells the CPU time of a thread")
    gathered = _Gathered()
    begun, own_begun = time.monotonic(), time.thread_time()
    end, due = begun + seconds, begun
    gathered.look()
    while time.monotonic() < end:
        due = max(due + 1 / hertz, time.monotonic())
        if stop.wait(min(due, end) - time.monotonic()):
            break
        gathered.look()
    profile = gathered.profile()
    profile.seconds = time.monotonic() - begun
    profile.own_cpu_seconds = time.thread_time() - own_begun
    return profile


class _Gathered:
    """Stacks as they are seen: by the identity of code objects, because nothing else about these is cheap."""

    def __init__(self) -> None:
        self._own = threading.get_ident()
        self._clocks: dict[int, int] = {}
        self._samples = 0
        self._size = 0
        self._stacks: dict[str, dict[tuple[int, ...], int]] = {}
        #: Kept alive, so that an identity stays one's own.
        self._codes: dict[int, tuple[CodeType, str]] = {}

    def look(self) -> None:
        frames = sys._current_frames()
        for thread in threading.enumerate():
            if thread.ident == self._own or thread.ident is None or thread.native_id is None:
                continue
            try:
                used = time.clock_gettime_ns((~thread.native_id << 3) | _THREAD_CPU_CLOCK)
            except OSError:
                continue  # it has ended meanwhile
            before = self._clocks.get(thread.native_id)
            self._clocks[thread.native_id] = used
            frame = frames.get(thread.ident)
            if before is not None and used > before and frame is not None:
                self._add(thread.name, frame, used - before)
        self._samples += 1

    def _add(self, thread: str, frame: FrameType | None, nanoseconds: int) -> None:
        found: list[int] = []
        while frame is not None and len(found) < _DEEPEST:
            code = frame.f_code
            if id(code) not in self._codes:
                self._codes[id(code)] = (code, str(frame.f_globals.get("__name__", "")))
            found.append(id(code))
            frame = frame.f_back
        stacks = self._stacks.setdefault(thread, {})
        key = tuple(found)
        if key not in stacks:
            if self._size >= _MOST_STACKS:
                key = ()
            self._size += 1
        stacks[key] = stacks.get(key, 0) + nanoseconds

    def profile(self) -> Profile:
        places = {
            identity: Place(module, code.co_qualname, code.co_firstlineno)
            for identity, (code, module) in self._codes.items()
        }
        profile = Profile(samples=self._samples)
        for thread, stacks in sorted(self._stacks.items()):
            by_place = profile.threads.setdefault(thread, {})
            for key, nanoseconds in stacks.items():
                stack = tuple(places[identity] for identity in reversed(key)) or BEYOND
                by_place[stack] = by_place.get(stack, 0) + nanoseconds
        return profile
