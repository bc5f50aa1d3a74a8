"""What the demo shows: a live table on a terminal, a line per change in a pipe, and a summary at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from bosket.cli.demo.observation import GangRecord, Observation, Promise, states
from bosket.cli.output import flush_line, stdout, table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

_BAR_CELLS = 32
_STATE_STYLES = {"running": "green", "starting": "green", "waiting": "yellow", "failed": "red", "succeeded": "dim"}


class Display(Protocol):
    """Shows how the story goes."""

    def show(self, observation: Observation, seconds: float) -> None: ...


@contextmanager
def live_display() -> Iterator[Display]:
    """The display that fits where the output goes."""
    console = stdout()
    if not console.is_terminal:
        yield LineDisplay()
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield LiveDisplay(live)


@contextmanager
def silent_display() -> Iterator[Display]:
    """Shows nothing."""
    yield _SilentDisplay()


class _SilentDisplay:
    def show(self, observation: Observation, seconds: float) -> None:
        pass


class LineDisplay:
    """A line when something changed, at most one a second."""

    def __init__(self) -> None:
        self._last_line = ""
        self._last_at = float("-inf")

    def show(self, observation: Observation, seconds: float) -> None:
        if not observation.seen_pods or seconds - self._last_at < 1.0:
            return
        line = _line(observation)
        if line == self._last_line:
            return
        if not self._last_line:
            flush_line("queue, its running + pending pods, GPUs in use/limit:")
        flush_line(f"{seconds:5.1f}s  {line}")
        self._last_line, self._last_at = line, seconds


class LiveDisplay:
    """Queues and gangs as they are now."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, observation: Observation, seconds: float) -> None:
        self._live.update(_screen(observation, seconds))


def print_summary(observation: Observation, seconds: float) -> None:
    """What became of everything."""
    console = stdout()
    rows = [_summary_row(record) for record in observation.gangs.values()]
    columns = ("job", "queue", "gang", "GPUs", "waited", "ran", "result")
    numbers = ("GPUs", "waited", "ran")
    console.print(table(f"Jobs, in {seconds:.1f} s", columns, rows, numbers=numbers))
    waits = [record.waited_until(seconds) for record in observation.gangs.values()]
    held_back = sum(wait > 1.0 for wait in waits)
    pods = sum(record.gang.pods for record in observation.gangs.values())
    console.print(
        f"{len(rows)} gangs of {pods} pods asked for {sum(r.gang.gpus for r in observation.gangs.values())} GPUs "
        f"where there are {observation.total_gpus}; {held_back} gangs had to wait, the longest for "
        f"{max(waits, default=0.0):.1f} s."
    )
    for promise in observation.promises():
        _print_promise(promise)


def _print_promise(promise: Promise) -> None:
    console = stdout()
    mark, style = ("ok", "green") if promise.kept else ("BROKEN", "bold red")
    console.print(f"[{style}]{mark}[/] {promise.name} ({promise.evidence})")
    for violation in promise.violations:
        console.print(f"   {violation}", markup=False)


def _summary_row(record: GangRecord) -> tuple[str, ...]:
    gang = record.gang
    return (
        gang.name,
        gang.team,
        f"{gang.pods} × {gang.gpus_per_pod}",
        str(gang.gpus),
        _seconds(record.waited_seconds),
        _seconds(record.ran_seconds),
        record.state,
    )


def _line(observation: Observation) -> str:
    teams = []
    for team in observation.teams:
        running, pending = observation.pods(team.name)
        limit = f"/{team.limit}" if team.limit is not None else ""
        teams.append(f"{team.name} {running}+{pending} {observation.gpus(team.name)}{limit} GPUs")
    waiting = states(observation)["waiting"]
    return ", ".join(teams) + (f"; waiting: {' '.join(waiting)}" if waiting else "")


def _screen(observation: Observation, seconds: float) -> Group:
    from rich.console import Group
    from rich.text import Text

    rows = []
    for team in observation.teams:
        running, pending = observation.pods(team.name)
        used = observation.gpus(team.name)
        limit = str(team.limit) if team.limit is not None else "–"
        rows.append((team.name, str(running), str(pending), str(used), limit, _bar(used, observation.total_gpus)))
    columns = ("queue", "running", "pending", "GPUs", "limit", f"share of {observation.total_gpus} GPUs")
    queues = table(
        f"Queues of department research, {seconds:4.1f} s",
        columns,
        rows,
        numbers=("running", "pending", "GPUs", "limit"),
    )
    gangs = table("Gangs", ("job", "gang", "state", "why it waits"), ())
    *narrow, why = gangs.columns
    for column, width in zip(narrow, (17, 12, 9), strict=True):
        column.min_width = width
    why.min_width = why.max_width = max(20, stdout().width - 56)
    for record in observation.gangs.values():
        gang = record.gang
        state = Text(record.state, style=_STATE_STYLES.get(record.state, "dim"))
        gangs.add_row(gang.name, f"{gang.pods} × {gang.gpus_per_pod} GPUs", state, Text(_why(record), style="dim"))
    return Group(queues, gangs)


def _why(record: GangRecord) -> str:
    """The scheduler's sentence; there is room for little more."""
    return record.why.partition("\n")[0] if record.state == "waiting" else ""


def _bar(used: int, total: int) -> str:
    cells = round(used / total * _BAR_CELLS)
    return "█" * cells + "·" * (_BAR_CELLS - cells)


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f} s"
