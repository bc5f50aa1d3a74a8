"""Whether a pod costs more in a large cluster: the workload `fill` at 500 and at 5,000 nodes, CPU time."""

from __future__ import annotations

from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import replay, workload

SMALL, LARGE = 500, 5000
#: The cheapest of so many: of a small cluster more, where one interruption weighs more.
REPEAT = {SMALL: 5, LARGE: 2}
PROMISED_QUOTIENT = 2.0

COLUMNS = (
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("total_ms", "total", number(unit=" ms")),
    Column("us_per_pod", "per pod", number(1, " µs")),
    Column("growth", "growth", number(2)),
)


def run() -> Report:
    report = Report("Cost of a pod as the cluster grows, CPU time", COLUMNS)
    base: float | None = None
    for nodes, repeat in REPEAT.items():
        progress(f"fill, {nodes} nodes")
        with workload("fill", n=nodes) as file:
            done = replay(file, repeat)
        per_pod = done.cpu_ms("total") * 1e3 / done.pods
        base = base or per_pod
        growth = per_pod / base
        row = {"nodes": nodes, "pods": done.pods, "total_ms": done.cpu_ms("total")}
        report.rows.append({**row, "us_per_pod": per_pod, "growth": growth})
        report.expect(done.binds == done.pods, f"{nodes} nodes: {done.binds} of {done.pods} pods are bound")
        report.expect(growth < PROMISED_QUOTIENT, f"a pod costs {growth:.2f} times as much, not less than twice")
    return report
