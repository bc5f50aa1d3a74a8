"""`bosket replay FOLDER`: every recorded cycle decided again, until one comes out differently."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bosket.cli.output import CommandError, flush_line
from bosket.cli.recorded_moment import clock, open_recording

if TYPE_CHECKING:
    from bosket.scheduler.answers.flight_replay import Replayed

DIFFERENT: Final = 1  #: exit code
_PROGRESS_SECONDS: Final = 1.0


def replay_recording(folder: Path, shard: str, *, json: bool) -> int:
    """Replays the recording and tells how it went; the exit code."""
    from bosket import __version__
    from bosket.scheduler.answers.flight_replay import Replay

    recording, replay = open_recording(folder, shard=shard), Replay()
    first = last = 0.0
    found: Replayed | None = None
    shown = time.monotonic()
    for each in replay.run(recording, 0.0, math.inf):
        last = each.moment.cycle.time
        first = first or last
        if not each.is_same:
            found = each
            break
        if sys.stderr.isatty() and time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            sys.stderr.write(f"\r{replay.replayed} cycles, up to {clock(last)} ")
            sys.stderr.flush()
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if not replay.replayed:
        raise CommandError(f"{recording.folder}: no cycle in it can be replayed")
    if json:
        import msgspec

        report = {
            "replayed": replay.replayed,
            "left_out": replay.left_out,
            "first": first,
            "last": last,
            "different": _difference(found) if found is not None else None,
        }
        flush_line(msgspec.json.encode(report).decode())
        return DIFFERENT if found is not None else 0
    if found is None:
        more = f"; {replay.left_out} others can't be replayed" if replay.left_out else ""
        flush_line(f"{replay.replayed} cycles from {clock(first)} to {clock(last)}: each decided the same again{more}")
        return 0
    then, cycle = found.then, found.moment.cycle
    flush_line(
        f"cycle {cycle.number} at {clock(cycle.time)} comes out differently, after {replay.replayed - 1} that are the "
        f"same: then {len(then.binds)} pods were bound and {len(then.evictions)} evicted, now "
        f"{len(found.decisions.lasting_binds)} and {len(found.decisions.lasting_evictions)}"
    )
    if found.moment.version != __version__:
        flush_line(f"it was recorded by Bosket {found.moment.version}; this is {__version__}")
    for line in _lines(found):
        flush_line(f"  {line}")
    return DIFFERENT


def _difference(found: Replayed) -> dict[str, Any]:
    return {
        "cycle": found.moment.cycle.number,
        "kind": found.moment.cycle.kind,
        "time": found.moment.cycle.time,
        "version": found.moment.version,
        "changes": list(_lines(found)),
    }


def _lines(found: Replayed) -> list[str]:
    """What was decided only then, and what only now."""
    then = {f"bind {each.pod} to {each.node}" for each in found.then.binds}
    then |= {f"evict {each.pod} by {each.action}" for each in found.then.evictions}
    now = {f"bind {each.task.key} to {each.node}" for each in found.decisions.lasting_binds}
    now |= {f"evict {each.task.key} by {each.action}" for each in found.decisions.lasting_evictions}
    lines = [f"then: {each}" for each in sorted(then - now)] + [f"now:  {each}" for each in sorted(now - then)]
    return lines or ["the same pods; what is reported about jobs that wait differs"]
