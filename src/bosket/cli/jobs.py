"""`bosket jobs`: every job with its state, its place in its queue, its nodes, and why it waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from bosket.cli.cluster_source import Source, SourceFlags
from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import Flag
from bosket.cli.quantity_text import amount, duration, shortened
from bosket.cli.view import ViewFlags, line_width, show

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.job_table import JobReport, JobRow

StateName = Literal["pending", "pipelined", "running", "evicted", "ending", "finished"]
_AllNamespaces = Annotated[bool, Parameter(name=("--all-namespaces", "-A"), negative=(), show_default=False)]
_STYLES: Final = {"running": "green", "pending": "yellow", "pipelined": "cyan", "evicted": "red", "ending": "dim"}
#: So many nodes of a job are named, unless -o wide.
_NODES: Final = 2


def jobs(
    names: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    /,
    *,
    source: SourceFlags | None = None,
    view: ViewFlags | None = None,
    queue: str | None = None,
    state: Annotated[tuple[StateName, ...], Parameter(negative=())] = (),
    all_namespaces: Annotated[
        bool, Parameter(name=("--all-namespaces", "-A"), negative=(), show_default=False)
    ] = False,
    finished: Flag = False,
) -> None:
    """Show jobs (pod groups): state, queue, position, age, nodes, and in one sentence why they wait.

    Jobs of all namespaces are shown, unless --namespace names one.

    Parameters
    ----------
    names
        Only these, as NAME or NAMESPACE/NAME, by the name of the workload or of the pod group.
    queue
        Only those of this queue.
    state
        Only those in this state; may be given several times.
    all_namespaces
        All namespaces, as without --namespace: for those who are used to it.
    finished
        Show also those that have ended.
    """
    from bosket.scheduler.answers.job_table import JobReport, can_decide, job_rows

    flags, given = view or ViewFlags(), source or SourceFlags()
    namespace = None if all_namespaces else given.namespace

    def chosen(row: JobRow) -> bool:
        return (
            (namespace is None or row.namespace == namespace)
            and (queue is None or row.queue == queue)
            and (row.state in state if state else finished or bool(names) or row.state != "finished")
            and (not names or not _names(row).isdisjoint(names))
        )

    def answer(at: Source) -> JobReport:
        cluster, is_known = at.cluster, can_decide(at.unread)
        snapshot = cluster.snapshot()
        decisions = cluster.decide(snapshot) if is_known else None
        found = tuple(filter(chosen, job_rows(snapshot, decisions, cluster.now)))
        return JobReport.of(found, decided=is_known)

    show(source, flags, answer, lambda report: job_lines(report, flags), needs=("PodGroup",))


def _names(row: JobRow) -> set[str]:
    """All that the job may be called by."""
    return {row.name, row.shown, f"{row.namespace}/{row.name}", f"{row.namespace}/{row.shown}"}


def job_lines(report: JobReport, flags: ViewFlags) -> Iterator[Text | str]:
    """Jobs as lines that fit the terminal."""
    from rich.text import Text

    if not report.jobs:
        yield "There are no such jobs."
        return
    columns = [
        Column("JOB", folds=True),
        Column("STATE"),
        Column("QUEUE"),
        Column("POS", is_number=True),
        Column("AGE", is_number=True),
        Column("PODS", is_number=True, leaves=2),
        Column("GPUS", is_number=True),
        Column("NODES", leaves=3),
    ]
    if flags.is_wide:
        columns[6:6] = [Column("MIN", is_number=True), Column("PRIORITY", is_number=True), Column("PREEMPTIBLE")]
        columns += [Column("REASON"), Column("PODGROUP")]
    rows = []
    for job in report.jobs:
        cells: list[Text | str] = [
            f"{job.namespace}/{job.shown}",
            Text(job.state, _STYLES.get(job.state, "")),
            job.queue,
            "" if job.position is None else str(job.position),
            duration(job.age_seconds),
            f"{job.running_pods}/{job.pods}",
            amount(job.gpus),
            ",".join(job.nodes) if flags.is_wide else shortened(job.nodes, _NODES),
        ]
        if flags.is_wide:
            cells[6:6] = [str(job.min_pods), str(job.priority), "yes" if job.preemptible else "no"]
            cells += [job.reason, job.name]
        rows.append(Row(cells, job.sentence))
    yield from lines(columns, rows, line_width(flags))
