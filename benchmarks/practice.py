"""One scheduling cycle on clusters as they come in practice: many shapes of pods, contention, fragments, constraints.

`mixed`: five types of nodes, 300 shapes of pods, three levels of queues of which some hold far more than they deserve,
85 % full. `dra`: every pod has a claim of its own for a device. `spread`, `affinity`, `antiaff`: gangs that are spread
over zones, drawn together, kept apart. Written by `perf/nasty.py`; searches of the Go scheduler end by the clock there,
so that its figures, in `perf/kai.md`, are lower bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured, replay, workload

GENERATOR = "nasty.py"
REPEAT = 3

COLUMNS = (
    Column("workload", "workload"),
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("binds", "binds", number()),
    Column("evictions", "evictions", number()),
    Column("pipelined", "pipelined", number()),
    Column("open_ms", "open", number(unit=" ms")),
    Column("allocate_ms", "allocate", number(unit=" ms")),
    Column("searches_ms", "searches", number(unit=" ms")),
    Column("total_ms", "total", number(unit=" ms")),
    Column("peak_rss_mb", "peak RSS", number(unit=" MB")),
)


@dataclass(frozen=True)
class Case:
    """One workload at one size."""

    kind: str
    nodes: int
    most_ms: float  #: of CPU that the cycle may take
    parameters: dict[str, int] = field(default_factory=dict)


CASES = (
    Case("mixed", 100, 6_000, {"pending": 400}),
    Case("mixed", 500, 8_000, {"pending": 2000}),
    Case("mixed", 2000, 9_000, {"pending": 2000}),
    Case("dra", 100, 200),
    Case("dra", 500, 900),
    Case("spread", 500, 1_300),
    Case("affinity", 500, 700),
    Case("antiaff", 500, 700),
)


def run(seed: int = 7) -> Report:
    report = Report(f"One cycle on clusters as they come in practice, CPU time, seed {seed}", COLUMNS)
    for case in CASES:
        try:
            _measure(report, case, seed)
        except NotMeasured as error:  # the others' figures are still worth having
            report.broken.append(str(error))
    return report


def _measure(report: Report, case: Case, seed: int) -> None:
    progress(f"{case.kind}, {case.nodes} nodes")
    with workload(case.kind, GENERATOR, n=case.nodes, seed=seed, **case.parameters) as file:
        done = replay(file, REPEAT)
    total, opening, placing = (done.cpu_ms(step) for step in ("total", "open", "allocate"))
    answer = done.answer
    report.rows.append(
        {
            "workload": case.kind,
            "nodes": case.nodes,
            "pods": done.pods,
            "binds": done.binds,
            "evictions": len(answer["evictions"]),
            "pipelined": len(answer["pipelined"]),
            "open_ms": opening,
            "allocate_ms": placing,
            "searches_ms": total - opening - placing,
            "total_ms": total,
            "peak_rss_mb": done.peak_rss_mb,
        }
    )
    within = f"{case.kind} with {case.nodes} nodes: {total:.0f} ms of CPU, {case.most_ms:.0f} are promised"
    report.expect(total <= case.most_ms, within)
