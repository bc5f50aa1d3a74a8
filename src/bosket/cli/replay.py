"""`bosket replay`: one cycle on a recorded snapshot, with what it decided, why things wait, and what it cost."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, UsageError, complain, flush_line, stdout, table
from bosket.cli.path import FilePath

if TYPE_CHECKING:
    from bosket.scheduler.decisions import Decisions
    from bosket.scheduler.framework.configuration import Configuration
    from bosket.scheduler.snapshot.recorded import Recorded


def replay(
    file: FilePath,
    /,
    *,
    json: Flag = False,
    repeat: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    now: str | None = None,
) -> None:
    """Run one scheduling cycle on a snapshot that KAI's or Bosket's scheduler wrote.

    Parameters
    ----------
    file
        snapshot.zip, or the snapshot.json that is in it.
    json
        Print everything as one JSON object.
    repeat
        Run the cycle so many times, and report what the cheapest one cost.
    now
        Pretend that it is this time, such as 2026-01-02T03:04:05Z; by default the time is that of the clock.
    """
    from bosket.kube.codec import gc_paused
    from bosket.scheduler.decide import known_part
    from bosket.scheduler.framework.configuration import ConfigurationError
    from bosket.scheduler.snapshot.recorded import RecordedError, load

    at = _time(now)
    began = time.process_time()
    try:
        recorded = load(file)
    except RecordedError as error:
        raise CommandError(str(error)) from error
    load_seconds = time.process_time() - began
    configuration, missing = known_part(recorded.configuration)
    if missing:
        complain(f"{file}: its configuration names what isn't there and is left out: {', '.join(missing)}")
    try:
        with gc_paused():  # as in `decide`
            cycles = [_cycle(recorded, configuration, at) for _ in range(repeat)]
    except ConfigurationError as error:
        raise CommandError(f"{file}: {error}") from error
    best = min(cycles, key=lambda cycle: cycle.total_seconds)
    cpu_ms = {
        "load": _milliseconds(load_seconds),
        **{step: _milliseconds(seconds) for step, seconds in best.steps.items()},
        "total": _milliseconds(best.total_seconds),
    }
    if json:
        import msgspec

        report = {**best.answer, "cpu_ms": cpu_ms, "peak_rss_mb": _peak_rss_mb()}
        flush_line(msgspec.json.encode(report).decode())
    else:
        _print(best, cpu_ms)


@dataclass(frozen=True, slots=True)
class _Cycle:
    decisions: Decisions
    answer: dict[str, Any]
    steps: dict[str, float]  #: `open` and each action, in CPU seconds

    @property
    def total_seconds(self) -> float:
        return sum(self.steps.values())


def _cycle(recorded: Recorded, configuration: Configuration, now: float) -> _Cycle:
    from bosket.scheduler.decide import open_session, run_action
    from bosket.scheduler.outcome import answer

    began = time.process_time()
    snapshot = recorded.snapshot(now)
    session = open_session(snapshot, configuration)
    steps = {"open": time.process_time() - began}
    for name in configuration.actions:
        began = time.process_time()
        run_action(session, name)
        steps[name] = time.process_time() - began
    decisions = session.close()
    return _Cycle(decisions, answer(snapshot, decisions), steps)


def _time(text: str | None) -> float:
    from bosket.api.time import InvalidTime, parse_time

    if text is None:
        return time.time()
    try:
        return parse_time(text)
    except InvalidTime as error:
        raise UsageError(f"--now {text}: {error}") from error


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kibibytes = peak / 1024 if sys.platform == "darwin" else peak  # Apple's system counts bytes
    return round(kibibytes * 1024 / 1e6, 1)


def _print(cycle: _Cycle, cpu_ms: dict[str, float]) -> None:
    answer = cycle.answer
    _print_table("Bound", ("pod", "node", "GPUs"), ((e["pod"], e["node"], _gpus(e)) for e in answer["binds"]))
    _print_table(
        "Pipelined", ("pod", "node", "action"), ((e["pod"], e["node"], e["action"]) for e in answer["pipelined"])
    )
    _print_table(
        "Evicted",
        ("pod", "action", "for"),
        ((e["pod"], e["action"], e.get("preemptor", "")) for e in answer["evictions"]),
    )
    _print_table(
        "Waiting",
        ("pod group", "pods", "why"),
        (
            (str(each.job.key), str(len(each.tasks)), " ".join(each.text.split()))
            for each in cycle.decisions.waiting
            if each.reasons
        ),
    )
    _print_table(
        "Fair share",
        ("queue", "GPUs", "CPU cores", "GB memory"),
        (
            (queue, f"{share['gpu']:g}", f"{share['cpu'] / 1e3:g}", f"{share['memory'] / 1e9:g}")
            for queue, share in sorted(answer["fairShare"].items())
        ),
    )
    _print_table("CPU", ("step", "ms"), ((step, f"{spent:.1f}") for step, spent in cpu_ms.items()))


def _gpus(bind: dict[str, Any]) -> str:
    count, portion = bind.get("gpuCount", 0), bind.get("gpuPortion", "1.00")
    return str(count or "") if float(portion) == 1 else f"{count} × {portion}"


def _print_table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    listed = list(rows)
    if listed:
        numbers = ("GPUs", "pods", "ms", "CPU cores", "GB memory")
        stdout().print(table(f"{title} ({len(listed)})", columns, listed, numbers=numbers))
        stdout().print()
