"""`bosket events`: which jobs started and which were evicted, when, for whom and by which rule."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from cyclopts import Parameter

from bosket.cli.cluster_source import History, SourceFlags, open_history
from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import UsageError
from bosket.cli.quantity_text import amount, duration, shortened
from bosket.cli.view import ViewFlags, line_width, show_what_is_read

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.tools.history import Happening

_STYLES: Final = {"started": "green", "evicted": "red"}
#: So many nodes are named, unless -o wide.
_NODES: Final = 2


class EventReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `bosket events --json` prints."""

    since: float
    now: float
    events: tuple[Happening, ...]
    is_complete: bool  #: whether there were events to read, and not only what pod groups remember


def events(
    names: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    /,
    *,
    source: SourceFlags | None = None,
    view: ViewFlags | None = None,
    since: str = "24h",
    kind: Literal["started", "evicted"] | None = None,
    queue: str | None = None,
) -> None:
    """Show which jobs started and which were evicted: when, for whom, by which rule, and what run time was lost.

    An API server keeps events for an hour unless told otherwise. Of what happened earlier, and in a snapshot, there is
    the last start and the last eviction of each job that still exists.

    Parameters
    ----------
    names
        Only of these jobs, as NAME or NAMESPACE/NAME.
    since
        How far back: a duration such as 30m, 12h or 2d, or a time such as 2026-01-02T03:04:05Z.
    kind
        Only starts, or only evictions.
    queue
        Only of jobs of this queue.
    """
    flags, given = view or ViewFlags(), source or SourceFlags()

    def chosen(each: Happening) -> bool:
        return (
            (kind is None or each.kind == kind)
            and (queue is None or each.queue == queue)
            and (given.namespace is None or each.namespace == given.namespace)
            and (not names or each.job in names or f"{each.namespace}/{each.job}" in names)
        )

    def answer(read: History) -> EventReport:
        from bosket.tools.history import history

        start = _start(since, read.now)
        found = history(read.events, read.groups, read.pods, start)
        is_complete = read.is_live and "Event" not in read.unread
        return EventReport(start, read.now, tuple(filter(chosen, found)), is_complete)

    _start(since, 0.0)  # what makes no sense is said before anything is read
    show_what_is_read(
        given,
        flags,
        read=open_history,
        answer=answer,
        lines=lambda report: event_lines(report, flags),
        needs=("PodGroup",),
    )


def _start(since: str, now: float) -> float:
    from bosket.api.time import InvalidDuration, InvalidTime, parse_long_duration, parse_time

    try:
        return now - parse_long_duration(since)
    except InvalidDuration:
        pass
    try:
        return parse_time(since)
    except InvalidTime:
        raise UsageError(
            f"--since {since}: neither a duration such as 30m, 12h or 2d, nor a time such as 2026-01-02T03:04:05Z"
        ) from None


def event_lines(report: EventReport, flags: ViewFlags) -> Iterator[Text | str]:
    """Starts and evictions as lines that fit the terminal."""
    from rich.text import Text

    if not report.events:
        yield f"No job started or was evicted in the last {duration(report.now - report.since)}, as far as is known."
        return
    columns = [
        Column("TIME"),
        Column("AGO", is_number=True, leaves=2),
        Column("WHAT"),
        Column("JOB", folds=True),
        Column("QUEUE", leaves=1),
        Column("PODS", is_number=True),
        Column("NODES", leaves=3),
    ]
    is_today = report.now - report.events[0].time < 12 * 3600
    rows = [
        Row(
            [
                time.strftime("%H:%M:%S" if is_today else "%m-%d %H:%M:%S", time.localtime(each.time)),
                duration(report.now - each.time),
                Text(each.kind, _STYLES[each.kind]),
                f"{each.namespace}/{each.job}",
                each.queue,
                str(each.pods or ""),
                ",".join(each.nodes) if flags.is_wide else shortened(each.nodes, _NODES),
            ],
            _sentence(each),
        )
        for each in report.events
    ]
    yield from lines(columns, rows, line_width(flags))


def _sentence(each: Happening) -> str:
    parts = [f"for {each.by}" if each.by else "", each.why]
    if each.lost_gpu_hours:
        parts.append(f"{amount(each.lost_gpu_hours)} GPU hours of run time lost")
    return "; ".join(filter(None, parts))
