"""One scheduling cycle in a full cluster, on the workloads that the Go scheduler was measured with, beside its figures.

`reclaim`: one queue holds everything, another asks for its half. `consolidate`: a gang needs whole nodes, and there is
something on every node. `backlog`: gangs that can never start, alike and all different.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.go_figure import Table, for_nodes, read_table
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured, Replayed, perf_folder, replay, workload

REPEAT = 7
PROMISED_RATIO = 20

COLUMNS = (
    Column("workload", "workload"),
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("evictions", "evictions", number()),
    Column("pipelined", "pipelined", number()),
    Column("open_ms", "open", number(unit=" ms")),
    Column("actions_ms", "actions", number(unit=" ms")),
    Column("total_ms", "total", number(unit=" ms")),
    Column("peak_rss_mb", "peak RSS", number(unit=" MB")),
    Column("go_ms", "Go", lambda text: f"{text} ms" if text != "–" else text),
    Column("times_less", "times less", number(1)),
)


@dataclass(frozen=True)
class Case:
    """One workload at one size."""

    kind: str
    nodes: int
    row: str  #: in the table of Go figures
    parameters: dict[str, int] = field(default_factory=dict)
    is_promised: bool = False
    note: str = ""


CASES = (
    *(Case("reclaim", nodes, "reclaim", is_promised=nodes == 1000) for nodes in (100, 500, 1000)),
    *(
        Case("consolidate", nodes, "consolidate, preemptees=-1", {"preemptees": -1}, is_promised=nodes == 500)
        for nodes in (100, 500)
    ),
    *(
        Case(
            "backlog",
            500,
            f"backlog, {pending} pending",
            {"pending": pending, "distinct": distinct},
            is_promised=True,
            note=f", {pending} gangs, {'all different' if distinct else 'all alike'}",
        )
        for pending in (1000, 5000)
        for distinct in (0, 1)
    ),
)


def run() -> Report:
    report = Report("One cycle in a full cluster, CPU time, beside the Go scheduler's", COLUMNS)
    go = read_table(perf_folder() / "kai.md")
    for case in CASES:
        try:
            _measure(report, go, case)
        except NotMeasured as error:  # the others' figures are still worth having
            report.broken.append(str(error))
    report.notes.append("times less: the low end of the Go figure by our total.")
    return report


def _measure(report: Report, go: Table, case: Case) -> None:
    name = f"{case.kind}{case.note}"
    progress(f"{name}, {case.nodes} nodes")
    with workload(case.kind, n=case.nodes, **case.parameters) as file:
        done = replay(file, REPEAT)
    figure = for_nodes(go, case.row, case.nodes)
    total = done.cpu_ms("total")
    ratio = None if figure.low is None else figure.low / total
    report.rows.append(
        {
            "workload": name,
            "nodes": case.nodes,
            "pods": done.pods,
            "evictions": _count(done, "evictions"),
            "pipelined": _count(done, "pipelined"),
            "open_ms": done.cpu_ms("open"),
            "actions_ms": total - done.cpu_ms("open"),
            "total_ms": total,
            "peak_rss_mb": done.peak_rss_mb,
            "go_ms": figure.text,
            "times_less": ratio,
        }
    )
    for text in _wrong(case, done):
        report.expect(False, f"{name} with {case.nodes} nodes: {text}")
    if case.is_promised and ratio is not None:
        less = f"{ratio:.1f} times less CPU than the Go scheduler"
        report.expect(ratio >= PROMISED_RATIO, f"{name} with {case.nodes} nodes: {less}, not {PROMISED_RATIO}")


def _count(done: Replayed, what: str) -> int:
    entries: list[Any] = done.answer[what]
    return len(entries)


def _wrong(case: Case, done: Replayed) -> list[str]:
    """What should have been decided, and wasn't."""
    binds, evictions, pipelined = (_count(done, what) for what in ("binds", "evictions", "pipelined"))
    decided = f"{binds} binds, {evictions} evictions, {pipelined} pipelined"
    if case.kind == "reclaim":
        half = 4 * case.nodes
        return [] if (binds, evictions, pipelined) == (0, half, half) else [f"{decided}; half the cluster should move"]
    if case.kind == "consolidate":
        moved = pipelined - 4
        return [] if binds == 0 and evictions == moved > 0 else [f"{decided}; all that is moved should have a place"]
    return [] if (binds, evictions, pipelined) == (0, 0, 0) else [f"{decided}; nothing can start here"]
