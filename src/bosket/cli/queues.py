"""`bosket queues`: the tree of queues, with what each uses, deserves, is owed and may use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from bosket.cli.cluster_source import SourceFlags
from bosket.cli.columns import Column, Row, lines
from bosket.cli.quantity_text import UNKNOWN, amount, bound
from bosket.cli.view import ViewFlags, line_width, show

if TYPE_CHECKING:
    from rich.text import Text

    from bosket.scheduler.answers.queue_view import QueueReport, QueueView, ResourceView

#: Of a bar: up to the fair share, and beyond it.
_SHARE_CELLS, _OVER_CELLS = 10, 5
_UNITS: Final = {"gpu": "GPUs", "cpu": "cores", "memory": "GiB"}
_LEGEND: Final = "Bars: │ is the fair share; █ used, ░ free below it, ▓ borrowed beyond it."


def queues(
    name: str | None = None,
    /,
    *,
    source: SourceFlags | None = None,
    view: ViewFlags | None = None,
    resource: Literal["gpu", "cpu", "memory"] | None = None,
) -> None:
    """Show the tree of queues: what each uses, its fair share, quota and limit, and how many jobs wait.

    A parent's numbers include its children's. Fair share is what the scheduler lets a queue count on now, with
    everything that others want taken into account; what a queue uses beyond it is borrowed, and others may reclaim it.

    Parameters
    ----------
    name
        Only this queue and those below it.
    resource
        What is shown: GPUs, CPU cores, or GiB of memory; by default GPUs where the cluster has any.
    """
    from bosket.scheduler.answers.queue_view import queue_report

    flags = view or ViewFlags()
    show(
        source,
        flags,
        lambda at: _below(queue_report(at.cluster.snapshot(), at.cluster.configuration, at.unread), name),
        lambda report: queue_lines(report, resource or most_interesting(report), flags),
        needs=("PodGroup",),
    )


def _below(report: QueueReport, name: str | None) -> QueueReport:
    if name is None:
        return report

    import msgspec

    from bosket.cli.output import UsageError

    names, found = {name}, []
    for each in report.queues:
        if each.name in names or each.parent in names:
            names.add(each.name)
            found.append(each)
    if not found:
        known = ", ".join(each.name for each in report.queues) or "none"
        raise UsageError(f"there is no queue {name}; there are: {known}")
    return msgspec.structs.replace(report, queues=tuple(found))


def most_interesting(report: QueueReport) -> str:
    """The resource that is shown where none is named."""
    has_gpus = any(each.resources["gpu"].requested for each in report.queues)
    return "gpu" if has_gpus or (report.total or {}).get("gpu", 1.0) else "cpu"


def queue_lines(report: QueueReport, resource: str, flags: ViewFlags) -> Iterator[Text | str]:
    """Queues as lines that fit the terminal."""
    if not report.queues:
        yield "There are no queues." if not report.unknown else "No job names a queue."
        return
    unit, width = _UNITS[resource], line_width(flags)
    depth = min(each.depth for each in report.queues)
    if report.total is not None:
        tops = [each for each in report.queues if each.depth == depth]
        used = sum(each.resources[resource].used for each in tops)
        total = report.total[resource]
        part = f" ({used / total:.0%})" if total else ""
        waiting = sum(each.waiting_jobs for each in tops)
        wait = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        yield f"{amount(used)} of {amount(total)} {unit} used{part}, {wait}"
        yield ""
    columns = [
        Column("QUEUE", folds=True),
        Column(unit.upper(), leaves=1),
        Column("USED", is_number=True),
        Column("FAIR", is_number=True),
        Column("QUOTA", is_number=True),
        Column("LIMIT", is_number=True),
        Column("WAITING", is_number=True),
        Column("RUNNING", is_number=True, leaves=2),
    ]
    if flags.is_wide:
        columns += [
            Column(title, is_number=True)
            for title in ("ASKED", "KEPT", "WEIGHT", "PRIORITY", "OTHERS USED", "OTHERS FAIR")
        ]
    rows = [Row(_cells(each, resource, flags, depth), each.problem, "red") for each in report.queues]
    yield from lines(columns, rows, width, "PROBLEM")
    if width is not None and any(each.resources[resource].fair_share is not None for each in report.queues):
        yield ""
        yield _LEGEND


def _cells(queue: QueueView, resource: str, flags: ViewFlags, depth: int) -> list[Text | str]:
    from rich.text import Text

    share = queue.resources[resource]
    is_known = share.fair_share is not None or share.quota is not None
    name = Text("  " * (queue.depth - depth) + queue.name, "red" if queue.problem else "" if queue.is_leaf else "bold")
    waiting = f"{queue.waiting_jobs}"
    if queue.waiting_jobs and resource == "gpu" and queue.waiting_gpus:
        waiting += f" ({amount(queue.waiting_gpus)})"
    cells: list[Text | str] = [
        name,
        _bar(share),
        amount(share.used),
        UNKNOWN if share.fair_share is None else amount(share.fair_share),
        bound(share.quota) if is_known else UNKNOWN,
        bound(share.limit) if is_known else UNKNOWN,
        waiting,
        str(queue.running_jobs),
    ]
    if flags.is_wide:
        others = {each: unit for each, unit in _UNITS.items() if each != resource}
        cells += [
            amount(share.requested),
            UNKNOWN if share.non_preemptible is None else amount(share.non_preemptible),
            UNKNOWN if share.weight is None else amount(share.weight),
            UNKNOWN if queue.priority is None else str(queue.priority),
            ", ".join(f"{amount(queue.resources[each].used)} {unit}" for each, unit in others.items()),
            ", ".join(
                f"{UNKNOWN if (fair := queue.resources[each].fair_share) is None else amount(fair)} {unit}"
                for each, unit in others.items()
            ),
        ]
    return cells


def _bar(share: ResourceView) -> Text:
    """What is used, against the fair share, which is at the same place in every bar."""
    from rich.text import Text

    if share.fair_share is None:
        return Text("")
    part = share.used / share.fair_share if share.fair_share else math.inf if share.used else 0.0
    # Whatever is used at all has a cell, and so has whatever is borrowed at all.
    filled = min(_SHARE_CELLS, math.ceil(part * _SHARE_CELLS - 1e-9))
    over = min(_OVER_CELLS, math.ceil((part - 1.0) * _SHARE_CELLS - 1e-9)) if part > 1.0 + 1e-9 else 0
    bar = Text("█" * filled, "green")
    bar.append("░" * (_SHARE_CELLS - filled), "dim")
    bar.append("│")
    bar.append("▓" * over, "yellow")
    bar.append(" " * (_OVER_CELLS - over))
    return bar
