"""`bosket top`: queues, jobs and what happened last, renewed until interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import SourceFlags, open_cluster, open_history
from bosket.cli.events import EventReport, event_lines
from bosket.cli.failure import failure_of
from bosket.cli.jobs import job_lines
from bosket.cli.output import Flag, flush_line, printable, stdout
from bosket.cli.queues import most_interesting, queue_lines
from bosket.cli.view import ViewFlags, harmless, print_lines, say_what_is_unknown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from bosket.scheduler.answers.job_table import JobReport
    from bosket.scheduler.answers.queue_view import QueueReport


#: How far back starts and evictions are shown.
_EVENT_SECONDS: Final = 3600.0
#: Of the lines of a terminal: for queues at most, and for what happened last.
_QUEUE_PART, _EVENT_PART = 0.4, 0.25
_ORDER: Final = {"pending": 0, "pipelined": 1, "evicted": 2, "running": 3, "ending": 4}


class Frame(msgspec.Struct, frozen=True, rename="camel"):
    """What `bosket top` shows at one moment."""

    time: float
    queues: QueueReport
    jobs: JobReport
    events: EventReport


def top(
    *,
    source: SourceFlags | None = None,
    every: Annotated[float, Parameter(validator=Number(gte=0.5))] = 5.0,
    once: Flag = False,
    json: Flag = False,
) -> None:
    """Watch queues, jobs and what happened last, all on one screen. Ctrl-C ends it.

    Jobs that wait come first. In a pipe, and of a snapshot, it is shown once.

    Parameters
    ----------
    every
        Seconds from one look at the cluster to the next.
    once
        Show it once, however many lines it takes.
    json
        Print everything as one JSON object, once.
    """
    given = source or SourceFlags()
    if json:
        flush_line(msgspec.json.encode(_frame(given)).decode())
        return
    console = stdout()
    if once or given.is_recorded or not console.is_terminal:
        print_lines(_all_lines(_frame(given)))
        return
    _watch(console, given, every)


def _frame(flags: SourceFlags, *, says_unknown: bool = True) -> Frame:
    from bosket.scheduler.answers.job_table import JobReport, can_decide, job_rows
    from bosket.scheduler.answers.queue_view import queue_report
    from bosket.tools.history import history

    at, happened = open_cluster(flags, is_known=not says_unknown), open_history(flags)
    if says_unknown:
        say_what_is_unknown(at)
    cluster, is_known = at.cluster, can_decide(at.unread)
    snapshot = cluster.snapshot()
    decisions = cluster.decide(snapshot) if is_known else None
    rows = [row for row in job_rows(snapshot, decisions, cluster.now) if row.state != "finished"]
    rows.sort(key=lambda row: (_ORDER[row.state], row.queue, row.position or 0, -row.gpus))
    since = cluster.now - _EVENT_SECONDS
    events = history(happened.events, happened.groups, happened.pods, since)
    return Frame(
        time=cluster.now,
        queues=queue_report(snapshot, cluster.configuration, at.unread),
        jobs=JobReport.of(tuple(rows), decided=is_known),
        events=EventReport(since, cluster.now, events[::-1], at.is_live and "Event" not in happened.unread),
    )


def _sections(frame: Frame) -> tuple[list[Text | str], list[Text | str], list[Text | str]]:
    view = ViewFlags()
    return (
        list(queue_lines(frame.queues, most_interesting(frame.queues), view)),
        list(job_lines(frame.jobs, view)),
        list(event_lines(frame.events, view)),
    )


def _all_lines(frame: Frame) -> Iterable[Text | str]:
    queues, jobs, events = _sections(frame)
    return [*queues, "", *jobs, "", *events]


def _watch(console: Console, flags: SourceFlags, every: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    frame = _frame(flags)
    problem = ""
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            # A line less than there are: what is written into the last one may scroll.
            shown = fitted(_sections(frame), console.height - 2)
            clock = time.strftime("%H:%M:%S", time.localtime(frame.time))
            head = Text(f"bosket top  {clock}  every {every:g} s  Ctrl-C ends it", "dim")
            head.append(f"  {printable(problem)}", "red")
            head.truncate(console.width)
            screen.update(Group(head, *(_unwrapped(line) for line in shown)), refresh=True)
            time.sleep(every)
            try:
                frame, problem = _frame(flags, says_unknown=False), ""
            except Exception as error:  # shown, and tried again: the server may be back soon
                problem = failure_of(error).text


def _unwrapped(line: Text | str) -> Text:
    from rich.text import Text

    shown = harmless(line)
    text = Text(shown) if isinstance(shown, str) else shown
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def fitted(
    sections: tuple[Sequence[Text | str], Sequence[Text | str], Sequence[Text | str]], height: int
) -> list[Text | str]:
    """As much of the sections as so many lines hold: queues and events have a part each, jobs what these leave."""
    queues, jobs, events = sections
    height -= 2  # between them
    queue_count = min(len(queues), max(4, int(height * _QUEUE_PART)))
    event_count = min(len(events), max(2, int(height * _EVENT_PART)))
    job_count = min(len(jobs), max(2, height - queue_count - event_count))
    left = max(0, height - job_count)
    queue_count = min(len(queues), max(queue_count, left - event_count))
    event_count = min(len(events), max(0, left - queue_count))
    parts = (
        _cut(queues, queue_count, "bosket queues"),
        _cut(jobs, job_count, "bosket jobs"),
        _cut(events, event_count, "bosket events"),
    )
    return [line for number, part in enumerate(parts) for line in ([""] * bool(number) + part)]


def _cut(lines: Sequence[Text | str], most: int, command: str) -> list[Text | str]:
    """The first lines; where more were left out, the last one says which command shows them."""
    if len(lines) <= most or most < 1:
        return list(lines[:most])
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more lines: {command}"]
