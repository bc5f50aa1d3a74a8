"""`bosket order`: whose turn it is next, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.cluster_source import Source, SourceFlags
from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import CommandError
from bosket.cli.quantity_text import amount, duration
from bosket.cli.view import ViewFlags, line_width, show

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.turn_order import OrderReport

_STYLES: Final = {"starts": "green", "after evictions": "cyan", "waits": "yellow"}


def order(
    queue: str | None = None,
    /,
    *,
    source: SourceFlags | None = None,
    view: ViewFlags | None = None,
    most: Annotated[int, Parameter(validator=Number(gte=1))] = 20,
) -> None:
    """Show in which order waiting jobs have their turn, why each goes before the next, and what comes of it now.

    Jobs start in this order as room comes free: after each turn the queue is charged with the job, as if it had got
    what it asks for. A job that doesn't fit now doesn't keep those behind it from being tried.

    Parameters
    ----------
    queue
        Only jobs of this queue and those below it; their numbers stay those of the whole line.
    most
        So many of the first are shown.
    """
    flags = view or ViewFlags()
    show(source, flags, lambda at: _report(at, queue, most), lambda report: _lines(report, flags), needs=("PodGroup",))


def _report(source: Source, queue: str | None, most: int) -> OrderReport:
    from bosket.scheduler.answers.job_table import NEEDED, can_decide
    from bosket.scheduler.answers.turn_order import OrderReport, turn_order

    if not can_decide(source.unread):
        unread = ", ".join(kind for kind in NEEDED if kind in source.unread)
        raise CommandError(
            f"whose turn it is can't be known without all of: {unread}, which your rights don't show; "
            f"bosket jobs shows your own jobs, with the position that the scheduler has told"
        )
    cluster = source.cluster
    snapshot = cluster.snapshot()
    turns = turn_order(snapshot, cluster.configuration, cluster.decide(snapshot))
    if queue is not None:
        tree = snapshot.queues
        row = tree.rows.get(queue)
        if row is None:
            raise CommandError(f"there is no queue {queue}; bosket queues shows them all")
        turns = tuple(each for each in turns if row in tree.paths[tree.rows[each.queue]])
    return OrderReport(turns[:most], len(turns))


def _lines(report: OrderReport, flags: ViewFlags) -> Iterator[Text | str]:
    from rich.text import Text

    if not report.turns:
        yield "No job waits for its turn."
        return
    digits = len(str(report.turns[-1].number))
    columns = [
        Column(f"{'#':>{digits}} JOB", folds=True),
        Column("QUEUE"),
        Column("PRIORITY", is_number=True),
        Column("AGE", is_number=True),
        Column("GPUS", is_number=True),
        Column("NOW", leaves=1),
    ]
    rows = [
        Row(
            [
                f"{turn.number:>{digits}} {turn.namespace}/{turn.shown}",
                turn.queue,
                str(turn.priority),
                duration(turn.age_seconds),
                amount(turn.gpus),
                Text(turn.outcome, _STYLES[turn.outcome]),
            ],
            f"before the next: {turn.why}" if turn.why else "",
        )
        for turn in report.turns
    ]
    yield from lines(columns, rows, line_width(flags))
    if len(report.turns) < report.of:
        yield ""
        yield f"{len(report.turns)} of {report.of} are shown (--most)"
