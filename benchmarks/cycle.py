"""One scheduling cycle on every workload, beside the Go scheduler's figures: CPU time, memory, decisions, exponents.

`fill`, `small`, `biggang` and `frac` fill an empty cluster, with gangs of 8, single pods, one gang, and quarters of
GPUs. `topology`: gangs that must each be in one rack. `reclaim`: one queue holds everything, another asks for its half.
`consolidate`: a gang needs whole nodes, and there is something on every node. `backlog`: gangs that can never start.
`fairshare`: many queues with one job each. `mixed`: five types of nodes, 300 shapes of pods, three levels of queues,
85 % full. `dra`: a claim for every pod. `spread`, `affinity`, `antiaff`: gangs spread over zones, drawn together, kept
apart. `openb`: a trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cycle_case import CASES, MOST_EXPONENT, OUTCOMES, Case, Counts
from benchmarks.go_figure import GoFigure, GoFigures, read_figures
from benchmarks.growth import curves, fitted_exponent
from benchmarks.openb import NODES_FILE, write_openb
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured, Replayed, perf_folder, replay, shared_folder, workload

#: CPU time for the repetitions of one case: many of cheap cycles, where one interruption weighs more.
REPEAT_MS = 3000.0
MOST_REPEATS = 9
#: An exponent is fitted to at least so many sizes.
LEAST_SIZES = 2

COLUMNS = (
    Column("workload", "workload"),
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("binds", "binds", number()),
    Column("evictions", "evicted", number()),
    Column("pipelined", "pipelined", number()),
    Column("open_ms", "open", number()),
    Column("allocate_ms", "allocate", number()),
    Column("searches_ms", "searches", number()),
    Column("total_ms", "CPU ms", number()),
    Column("us_per_pod", "µs a pod", number()),
    Column("peak_rss_mb", "peak MB", number()),
    Column("go_text", "Go, ms", lambda text: text or "–"),
    Column("times_less", "times less", number(1)),
    Column("promised", "promised", lambda text: text or ""),
)
EXPONENT_COLUMNS = (
    Column("workload", "workload"),
    Column("sizes", "nodes"),
    Column("exponent", "exponent", number(2)),
    Column("go_exponent", "Go's", lambda text: text or "–"),
)


def run(only: Sequence[str] = ()) -> Report:
    """Measures all workloads, or those of these kinds."""
    report = Report("One cycle, CPU time, beside the Go scheduler's", COLUMNS)
    go = read_figures(perf_folder() / "kai.md")
    cases = [case for case in CASES if not only or case.kind in only]
    for case in cases:
        progress(case.title)
        try:
            with _recording(case) as file:
                done = _cheapest(file)
        except NotMeasured as error:  # the others' figures are still worth having
            report.broken.append(str(error))
        else:
            _judge(report, case, done, go.cost(case.go_row, case.go_call, case.nodes))
    _add_exponents(report, {case.workload: case.go_row for case in cases}, go)
    report.notes.append(
        "times less: the low end of the Go figure by our CPU time. ~: by the exponent of smaller sizes."
    )
    return report


@contextmanager
def _recording(case: Case) -> Iterator[Path]:
    """The recording of a cluster with this work to do, for the length of the block."""
    if case.kind == "openb":
        traces = shared_folder() / "traces"
        if not (traces / NODES_FILE).is_file():
            raise NotMeasured(f"{case.title}: there is no {traces}/{NODES_FILE}")
        with TemporaryDirectory() as folder:
            file = Path(folder) / "snapshot.zip"
            write_openb(traces, file)
            yield file
    else:
        with workload(case.kind, case.generator, n=case.nodes, **case.parameters) as file:
            yield file


def _cheapest(file: Path) -> Replayed:
    """The cheapest of several cycles; of one alone where a cycle takes seconds."""
    first = replay(file)
    repeats = min(MOST_REPEATS, int(REPEAT_MS / first.cpu_ms["total"]))
    if repeats < 2:
        return first
    return min(first, replay(file, repeats), key=lambda done: done.cpu_ms["total"])


def _judge(report: Report, case: Case, done: Replayed, go: GoFigure) -> None:
    """Adds the row of a case, and what it breaks."""
    row = _row(case, done, go)
    report.rows.append(row)
    counts = Counts(row["binds"], row["evictions"], row["pipelined"])
    outcome = OUTCOMES.get(case.kind)
    if outcome is not None:
        decided = f"{counts.binds} binds, {counts.evictions} evictions, {counts.pipelined} pipelined"
        report.expect(outcome.holds(counts, case.nodes), f"{case.title}: {decided}; {outcome.text}")
    ratio, total = row["times_less"], row["total_ms"]
    if case.least_ratio is not None and ratio is not None:
        less = f"{ratio:.1f} times less CPU than the Go scheduler"
        report.expect(ratio >= case.least_ratio, f"{case.title}: {less}, {case.least_ratio:g} are promised")
    if case.most_ms is not None:
        report.expect(total <= case.most_ms, f"{case.title}: {total:,.0f} ms of CPU, {case.most_ms:,.0f} are promised")


def _row(case: Case, done: Replayed, go: GoFigure) -> dict[str, Any]:
    total, opening, placing = (done.cpu_ms[step] for step in ("total", "open", "allocate"))
    return {
        "workload": case.workload,
        "nodes": case.nodes,
        "pods": done.pods,
        "binds": done.binds,
        "evictions": done.evictions,
        "pipelined": done.pipelined,
        "open_ms": opening,
        "allocate_ms": placing,
        "searches_ms": total - opening - placing,
        "total_ms": total,
        "us_per_pod": total * 1e3 / done.pods,
        "peak_rss_mb": done.peak_rss_mb,
        "go_text": go.text if go.low is not None else "",
        "go_ms": go.low,
        "times_less": None if go.low is None else go.low / total,
        "promised": f"≥ {case.least_ratio:g} ×"
        if case.least_ratio
        else f"≤ {case.most_ms:,.0f}"
        if case.most_ms
        else "",
    }


def _add_exponents(report: Report, go_rows: Mapping[str, str], go: GoFigures) -> None:
    """Adds how the cost of each workload grows with the number of nodes."""
    found = Report("Growth with the number of nodes, as an exponent", EXPONENT_COLUMNS)
    for name, costs in curves(report.rows, "total_ms").items():
        if len(costs) < LEAST_SIZES:
            continue
        exponent = fitted_exponent(costs)
        sizes = f"{min(costs):,} – {max(costs):,}"
        go_exponent = go.exponent(go_rows[name])
        found.rows.append({"workload": name, "sizes": sizes, "exponent": exponent, "go_exponent": go_exponent})
        report.expect(exponent <= MOST_EXPONENT, f"{name}: exponent {exponent:.2f}, {MOST_EXPONENT} is promised")
    if found.rows:
        report.details.append(found)
