"""`bosket diff`: what is different between two moments of a recording, or between two snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from bosket.cli.columns import Column, Row, lines
from bosket.cli.output import Flag, UsageError, complain, flush_line
from bosket.cli.path import OptionalFilePath
from bosket.cli.quantity_text import UNBOUNDED, amount, duration, shortened
from bosket.cli.recorded_moment import open_moment
from bosket.cli.view import ViewFlags, line_width, print_lines

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.cluster import Cluster
    from bosket.scheduler.answers.difference import Difference, JobChange, ValueChange

_STYLES = {"started": "green", "stopped": "red", "ended": "dim"}
_NODES = 3


def diff(
    before: str,
    after: str | None = None,
    /,
    *,
    recording: OptionalFilePath = None,
    kubeconfig: OptionalFilePath = None,
    shard: str = "",
    output: Annotated[str | None, Parameter(name=("--output", "-o"))] = None,
    json: Flag = False,
) -> None:
    """Show what is different between two moments: jobs that started, stopped or ended, queues, nodes, use.

    Parameters
    ----------
    before
        A moment of the recording (03:00, 12h ago as 12h, 2026-01-02T03:04:05Z), or a snapshot file.
    after
        The other one; by default the latest that is recorded.
    recording
        The folder of the recording; by default the one that bosket up keeps beside the kubeconfig.
    kubeconfig
        Whose recording.
    shard
        Whose cycles, where several schedulers were recorded.
    output
        wide: lines as long as they are.
    json
        Print everything as one JSON object.
    """
    from bosket.scheduler.answers.difference import difference

    if output not in (None, "wide"):
        raise UsageError(f"--output {output}: only wide is known")
    old = _cluster(before, recording, kubeconfig, shard)
    new = _cluster(after, recording, kubeconfig, shard)
    found = difference(old, new)
    if json:
        import msgspec

        flush_line(msgspec.json.encode(found).decode())
        return
    print_lines(_lines(found, line_width(ViewFlags(output="wide" if output else None))))


def _cluster(which: str | None, recording: Path | None, kubeconfig: Path | None, shard: str) -> Cluster:
    from bosket.scheduler.answers.cluster import Cluster
    from bosket.scheduler.recording.recorded import RecordedError, load

    if which is not None and Path(which).is_file():
        try:
            return Cluster(load(Path(which)), report=complain)
        except RecordedError as error:
            raise UsageError(str(error)) from error
    if which is not None and which.endswith((".zip", ".json")):
        raise UsageError(f"{which}: there is no such file")
    return Cluster(open_moment(recording, which, kubeconfig, shard).recorded, report=complain)


def _lines(found: Difference, width: int | None) -> Iterator[Text | str]:
    started, stopped, ended = (_number(found, course) for course in ("started", "stopped", "ended"))
    yield (
        f"{amount(found.gpus_used[0])} of {amount(found.gpus[0])} GPUs were used, {amount(found.gpus_used[1])} of "
        f"{amount(found.gpus[1])} are {duration(found.after - found.before)} later; {started} jobs started, {stopped} "
        f"stopped, {ended} ended; {found.waiting_jobs[0]} waited, {found.waiting_jobs[1]} wait"
    )
    if found.jobs:
        yield ""
        columns = [
            Column("JOB"),
            Column("COURSE"),
            Column("QUEUE"),
            Column("PODS", is_number=True),
            Column("GPUS", is_number=True),
            Column("NODES", leaves=1),
        ]
        yield from lines(columns, [Row(_job_cells(each)) for each in found.jobs], width)
    for title, changes in (("QUEUE", (*found.queues, *found.shares)), ("NODE", found.nodes)):
        if changes:
            yield ""
            yield from lines(
                [Column(title), Column("WHAT"), Column("BEFORE", is_number=True), Column("AFTER", is_number=True)],
                [Row((each.name, each.what, _value(each, each.before), _value(each, each.after))) for each in changes],
                width,
            )


def _number(found: Difference, course: str) -> int:
    return sum(each.course == course for each in found.jobs)


def _job_cells(each: JobChange) -> list[Text | str]:
    from rich.text import Text

    then, now = each.nodes_before, each.nodes_after
    nodes = shortened(now or then, _NODES) if then == now or not (then and now) else _moved(then, now)
    pods = str(each.running_after)
    if each.running_before != each.running_after:
        pods = f"{each.running_before} → {each.running_after}"
    course = Text(each.course, _STYLES.get(each.course, ""))
    return [f"{each.namespace}/{each.shown}", course, each.queue, pods, amount(each.gpus), nodes]


def _moved(then: tuple[str, ...], now: tuple[str, ...]) -> str:
    return f"{shortened(then, _NODES)} → {shortened(now, _NODES)}"


def _value(change: ValueChange, value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    if value is not None:
        return amount(value)
    return UNBOUNDED if change.what.endswith(("quota", "limit")) else "-"
