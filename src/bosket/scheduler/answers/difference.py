"""What is different between two moments of a cluster: queues, nodes, jobs and use, for `bosket diff`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.job_table import JobRow, job_rows
from bosket.scheduler.answers.queue_view import QueueReport, QueueView, queue_report
from bosket.scheduler.model.snapshot import Snapshot

#: What became of a job: `submitted` and still waiting, `started` (submitted before or not), `evicted` or stopped and
#: waiting again, `moved` to other nodes, `ended` and gone, `changed` its number of running pods.
Course = Literal["submitted", "started", "stopped", "moved", "ended", "changed"]
_RUNNING: Final = ("running", "ending")
#: Fields of a queue that administrators set.
_SETTINGS: Final = ("quota", "limit", "weight")


class JobChange(msgspec.Struct, frozen=True, rename="camel"):
    """A job that is not as it was."""

    namespace: str
    name: str
    shown: str
    queue: str
    course: Course
    gpus: float
    running_before: int  #: pods
    running_after: int
    nodes_before: tuple[str, ...]
    nodes_after: tuple[str, ...]


class ValueChange(msgspec.Struct, frozen=True, rename="camel"):
    """A number of a queue or a node that is another one; None: unbounded, or there is no such object."""

    name: str
    what: str
    before: float | str | None
    after: float | str | None


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that differs."""

    before: float  #: epoch seconds
    after: float
    jobs: tuple[JobChange, ...]
    queues: tuple[ValueChange, ...]  #: settings, and queues that came or went
    shares: tuple[ValueChange, ...]  #: GPUs used and deserved by queues
    nodes: tuple[ValueChange, ...]
    gpus_used: tuple[float, float]
    gpus: tuple[float, float]
    waiting_jobs: tuple[int, int]


def difference(before: Cluster, after: Cluster) -> Difference:
    """From one moment to the other."""
    snapshots = before.snapshot(), after.snapshot()
    reports = [queue_report(shot, of.configuration) for shot, of in zip(snapshots, (before, after), strict=True)]
    views = [{each.name: each for each in report.queues} for report in reports]
    rows = [
        {(each.namespace, each.name): each for each in job_rows(shot, None, of.now)}
        for shot, of in zip(snapshots, (before, after), strict=True)
    ]
    return Difference(
        before=before.now,
        after=after.now,
        jobs=tuple(_job_changes(*rows)),
        queues=tuple(_setting_changes(*views)),
        shares=tuple(_share_changes(*views)),
        nodes=tuple(_node_changes(*snapshots)),
        gpus_used=(_used(reports[0]), _used(reports[1])),
        gpus=(_gpus(reports[0]), _gpus(reports[1])),
        waiting_jobs=(_waiting(reports[0]), _waiting(reports[1])),
    )


def _job_changes(
    before: Mapping[tuple[str, str], JobRow], after: Mapping[tuple[str, str], JobRow]
) -> Iterable[JobChange]:
    for key in sorted(before.keys() | after.keys()):
        was, is_ = before.get(key), after.get(key)
        course = _course(was, is_)
        known = is_ or was
        if course is None or known is None:
            continue
        yield JobChange(
            namespace=known.namespace,
            name=known.name,
            shown=known.shown,
            queue=known.queue,
            course=course,
            gpus=known.gpus,
            running_before=_running(was),
            running_after=_running(is_),
            nodes_before=was.nodes if was is not None and was.state in _RUNNING else (),
            nodes_after=is_.nodes if is_ is not None and is_.state in _RUNNING else (),
        )


def _course(was: JobRow | None, is_: JobRow | None) -> Course | None:
    """What became of the job; None if nothing did."""
    if is_ is None or (is_.state == "finished" and was is not None and was.state != "finished"):
        return "ended"
    ran, runs = was is not None and was.state in _RUNNING, is_.state in _RUNNING
    if runs and not ran:
        return "started"
    if was is None:
        return "submitted" if is_.state != "finished" else "ended"
    if ran and not runs:
        return "stopped"
    if ran and was.running_pods == is_.running_pods and was.nodes != is_.nodes:
        return "moved"
    return "changed" if ran and was.running_pods != is_.running_pods else None


def _running(row: JobRow | None) -> int:
    return row.running_pods if row is not None and row.state in _RUNNING else 0


def _setting_changes(before: Mapping[str, QueueView], after: Mapping[str, QueueView]) -> Iterable[ValueChange]:
    for name in sorted(before.keys() | after.keys()):
        was, is_ = before.get(name), after.get(name)
        if was is None or is_ is None:
            yield ValueChange(name, "queue", "there" if was else None, "there" if is_ else None)
            continue
        if was.parent != is_.parent:
            yield ValueChange(name, "parent", was.parent, is_.parent)
        if was.priority != is_.priority:
            yield ValueChange(name, "priority", was.priority, is_.priority)
        for resource, now in is_.resources.items():
            then = was.resources[resource]
            for field in _SETTINGS:
                if getattr(then, field) != getattr(now, field):
                    yield ValueChange(name, f"{resource} {field}", getattr(then, field), getattr(now, field))


def _share_changes(before: Mapping[str, QueueView], after: Mapping[str, QueueView]) -> Iterable[ValueChange]:
    for name in sorted(before.keys() | after.keys()):
        was, is_ = before.get(name), after.get(name)
        for what, field in (("used", "used"), ("fair share", "fair_share")):
            then, now = _of(was, field), _of(is_, field)
            if then != now:
                yield ValueChange(name, what, then, now)


def _of(view: QueueView | None, field: str) -> float | None:
    value: Any = getattr(view.resources["gpu"], field) if view is not None else None
    return round(value, 3) if value is not None else None


def _node_changes(before: Snapshot, after: Snapshot) -> Iterable[ValueChange]:
    tables = [shot.nodes for shot in (before, after)]
    takes = [dict(zip(shot.nodes.rows, shot.taking_nodes().tolist(), strict=True)) for shot in (before, after)]
    names = [table.rows for table in tables]
    for name in sorted(names[0].keys() | names[1].keys()):
        if name not in names[0] or name not in names[1]:
            there = [("there" if name in each else None) for each in names]
            yield ValueChange(name, "node", *there)
            continue
        states = ["takes pods" if each[name] else "takes no pods" for each in takes]
        if states[0] != states[1]:
            yield ValueChange(name, "state", *states)


def _used(report: QueueReport) -> float:
    return sum(each.resources["gpu"].used for each in report.queues if not each.depth)


def _gpus(report: QueueReport) -> float:
    return (report.total or {}).get("gpu", 0.0)


def _waiting(report: QueueReport) -> int:
    return sum(each.waiting_jobs for each in report.queues if not each.depth)
