"""`bosket record`: what a flight recording holds, and snapshot files of its moments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from bosket.cli.output import CommandError, Flag, UsageError, flush_line, stdout, table
from bosket.cli.path import FilePath, OptionalFilePath
from bosket.cli.recorded_moment import clock, open_recording, parse_moment

if TYPE_CHECKING:
    from bosket.scheduler.recording.flight.frames import Outcome
    from bosket.scheduler.recording.flight.reader import FlightRecording, Moment

#: So many of the latest cycles are listed, unless all are asked for.
_LATEST = 20


def record_list(
    folder: OptionalFilePath = None,
    /,
    *,
    kubeconfig: OptionalFilePath = None,
    shard: str = "",
    since: str | None = None,
    all: Flag = False,
    json: Flag = False,
) -> None:
    """Show what a flight recording holds: its span, its size, and the cycles that decided something.

    Parameters
    ----------
    folder
        The folder of the recording; by default the one that bosket up keeps beside the kubeconfig.
    kubeconfig
        Whose recording, without a folder.
    shard
        Whose cycles, where several schedulers were recorded.
    since
        Only cycles since then: 03:00, 2h, 2026-01-02T03:04:05Z.
    all
        All cycles that decided something, not only the latest.
    json
        Print everything as one JSON object.
    """
    recording = open_recording(folder, kubeconfig, shard)
    start = parse_moment(since, time.time(), "--since") if since is not None else 0.0
    found = _summary(recording, start)
    if not found["cycles"]:
        raise CommandError(f"{recording.folder}: no cycle is recorded" + (f" since {since}" if since else ""))
    listed = found["decisions"]
    shown = listed if all or json else listed[-_LATEST:]
    if json:
        import msgspec

        flush_line(msgspec.json.encode(found).decode())
        return
    flush_line(
        f"{found['cycles']} cycles from {clock(found['first'])} to {clock(found['last'])}, {len(listed)} of them "
        f"decided something; {found['files']} files, {found['bytes'] / (1 << 20):.1f} MiB"
    )
    if shown:
        rows = [
            (clock(each["time"]), str(each["cycle"]), each["kind"], *map(_count, (each["binds"], each["evictions"])))
            for each in shown
        ]
        title = f"Cycles ({len(shown)} of {len(listed)})" if len(shown) < len(listed) else f"Cycles ({len(shown)})"
        stdout().print()
        columns = ("time", "cycle", "kind", "bound", "evicted")
        stdout().print(table(title, columns, rows, numbers=("cycle", "bound", "evicted")))


def record_export(
    folder: OptionalFilePath = None,
    /,
    *,
    at: str | None = None,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    output: Annotated[FilePath | None, Parameter(name=("--output", "-o"))] = None,
    kubeconfig: OptionalFilePath = None,
    shard: str = "",
) -> None:
    """Write the cluster of a moment as a snapshot file, as KAI and bosket replay read it; without what is secret.

    Parameters
    ----------
    folder
        The folder of the recording; by default the one that bosket up keeps beside the kubeconfig.
    at
        One moment: 03:00, 30m (ago), 2026-01-02T03:04:05Z; by default the last one.
    from_
        A file for each cycle since then that decided something.
    to
        With --from: until then.
    output
        The file, by default snapshot.zip; with --from the folder of the files, by default snapshots.
    kubeconfig
        Whose recording, without a folder.
    shard
        Whose cycles, where several schedulers were recorded.
    """
    if at is not None and (from_ is not None or to is not None):
        raise UsageError("--at and --from or --to were given: which of them?")
    recording = open_recording(folder, kubeconfig, shard)
    now = time.time()
    if from_ is None and to is None:
        moment = recording.at(parse_moment(at, now) if at is not None else now)
        path = output or Path("snapshot.zip")
        _write(path, moment)
        flush_line(f"{path}: the cluster at {clock(moment.cycle.time)}, as cycle {moment.cycle.number} saw it")
        flush_line(f"try: bosket replay {path}")
        return
    since = parse_moment(from_, now, "--from") if from_ is not None else 0.0
    until = parse_moment(to, now, "--to") if to is not None else now
    target = output or Path("snapshots")
    count = 0
    for moment in _deciding(recording, since, until):
        _write(target / f"{_stamp(moment.cycle.time)}-{moment.cycle.number}.zip", moment)
        count += 1
    if not count:
        raise CommandError(f"{recording.folder}: no cycle in that time decided anything")
    flush_line(f"{target}: {count} snapshots")


def decided(kind: str, outcome: Outcome) -> tuple[int, int]:
    """Pods that a cycle of this kind bound and evicted. A search places, too; only its evictions are carried out."""
    return len(outcome.binds) if kind in ("whole", "place") else 0, len(outcome.evictions)


def _summary(recording: FlightRecording, since: float) -> dict[str, Any]:
    from bosket.scheduler.recording.flight.reader import Moment

    cycles, first, last = 0, 0.0, 0.0
    times: dict[tuple[str, int], tuple[float, str]] = {}
    decisions: list[dict[str, Any]] = []
    for each in recording.cycles(since):
        if isinstance(each, Moment):
            cycles, last = cycles + 1, each.cycle.time
            first = first or last
            times[each.run, each.cycle.number] = last, each.cycle.kind
        elif (began := times.pop((each.run, each.outcome.number), None)) is not None:
            outcome, (then, kind) = each.outcome, began
            binds, evictions = decided(kind, outcome)
            if binds or evictions:
                decisions.append(
                    {"time": then, "cycle": outcome.number, "kind": kind, "binds": binds, "evictions": evictions}
                )
    files = recording.files()
    size = sum(path.stat().st_size for path in files)
    folder = str(recording.folder)
    return {
        "folder": folder, "files": len(files), "bytes": size, "cycles": cycles, "first": first, "last": last,
        "decisions": decisions,
    }  # fmt: skip


def _deciding(recording: FlightRecording, since: float, until: float) -> Iterator[Moment]:
    """The cycles that decided something."""
    from bosket.scheduler.recording.flight.reader import Moment

    waiting: dict[tuple[str, int], Moment] = {}
    for each in recording.cycles(since, until):
        if isinstance(each, Moment):
            waiting[each.run, each.cycle.number] = each
            continue
        found = waiting.pop((each.run, each.outcome.number), None)
        if found is not None and any(decided(found.cycle.kind, each.outcome)):
            yield found


def _write(path: Path, moment: Moment) -> None:
    from bosket.cli.local_page import write_answer
    from bosket.scheduler.recording.writer import zipped

    path.parent.mkdir(parents=True, exist_ok=True)
    write_answer(path, zipped(moment.recorded))


def _count(number: int) -> str:
    return str(number) if number else ""


def _stamp(seconds: float) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.localtime(seconds))
