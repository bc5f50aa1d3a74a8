"""One scheduling cycle on the workloads that the Go scheduler was measured with, beside its figures.

`fill`, `small`, `biggang` and `frac` fill an empty cluster, with gangs of 8, single pods, one gang, and quarters of
GPUs; every pod must find its place. `fairshare` has many queues with one job each; what the Go figure tells of it is
the division of shares alone, so that this part is measured once more by itself.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from benchmarks.go_figure import UNKNOWN, GoFigure, Table, for_nodes, for_queues, read_table
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured, Replayed, perf_folder, replay, workload
from bosket.scheduler.decide import open_session
from bosket.scheduler.framework.configuration import Configuration, PluginChoice
from bosket.scheduler.snapshot.recorded import load
from bosket.scheduler.snapshot.snapshot import Snapshot
from bosket.testing.cluster import NOW

#: Workload → pods per node, and the numbers of nodes.
FILLING = {
    "fill": (8, (100, 500, 1000, 2000)),
    "small": (8, (100, 500, 1000, 2000)),
    "biggang": (8, (100, 500, 1000, 2000)),
    "frac": (32, (100, 500, 1000)),
}
LEAF_QUEUES = (1000, 10_000)
FAIR_SHARE_NODES = 100
REPEAT = 7

#: How many times less CPU than the Go scheduler a filling workload takes at these sizes.
PROMISED_AT, PROMISED_RATIO = {"frac": (500, 1000)}, 20
PROMISED_AT_ALL = (1000,)

COLUMNS = (
    Column("workload", "workload"),
    Column("nodes", "nodes", number()),
    Column("pods", "pods", number()),
    Column("open_ms", "open", number(unit=" ms")),
    Column("allocate_ms", "allocate", number(unit=" ms")),
    Column("others_ms", "other actions", number(unit=" ms")),
    Column("total_ms", "total", number(unit=" ms")),
    Column("us_per_pod", "per pod", number(unit=" µs")),
    Column("peak_rss_mb", "peak RSS", number(unit=" MB")),
    Column("go_ms", "Go", lambda text: f"{text} ms" if text != "–" else text),
    Column("times_less", "times less", number(1)),
)


def run() -> Report:
    report = Report("One cycle, CPU time, beside the Go scheduler's", COLUMNS)
    go = read_table(perf_folder() / "kai.md")
    measurements = [
        partial(_measure_filling, report, go, kind, nodes) for kind, (_, sizes) in FILLING.items() for nodes in sizes
    ]
    measurements += [partial(_measure_fair_share, report, go, leaves) for leaves in LEAF_QUEUES]
    for measure in measurements:
        try:
            measure()
        except NotMeasured as error:  # the others' figures are still worth having
            report.broken.append(str(error))
    report.notes.append("times less: the low end of the Go figure by our total. ~: by the exponent of smaller sizes.")
    return report


def _measure_filling(report: Report, go: Table, kind: str, nodes: int) -> None:
    progress(f"{kind}, {nodes} nodes")
    with workload(kind, n=nodes) as file:
        done = replay(file, REPEAT)
    figure = for_nodes(go, kind, nodes)
    ratio = _ratio(figure, done.cpu_ms("total"))
    report.rows.append(_row(kind, nodes, done, figure, ratio))
    wanted = FILLING[kind][0] * nodes
    report.expect(done.binds == wanted, f"{kind} with {nodes} nodes: {done.binds} pods are bound, not {wanted}")
    if nodes in PROMISED_AT.get(kind, PROMISED_AT_ALL) and ratio is not None:
        less = f"{ratio:.1f} times less CPU than the Go scheduler"
        report.expect(ratio >= PROMISED_RATIO, f"{kind} with {nodes} nodes: {less}, not {PROMISED_RATIO}")


def _measure_fair_share(report: Report, go: Table, leaves: int) -> None:
    progress(f"fairshare, {leaves} leaf queues")
    with workload("fairshare", n=FAIR_SHARE_NODES, leaves=leaves) as file:
        division_ms = _division_ms(file)
        done = replay(file)
    name = f"fairshare, {done.queues:,} queues"
    figure = for_queues(go, done.queues)
    division = {"workload": f"{name}: division", "nodes": FAIR_SHARE_NODES, "total_ms": division_ms}
    report.rows.append(_row(name, FAIR_SHARE_NODES, done, UNKNOWN, None))
    report.rows.append({**division, "go_ms": figure.text, "times_less": _ratio(figure, division_ms)})


def _division_ms(file: Path) -> float:
    """What a session with the plugin that divides shares costs more than one without."""
    snapshot = load(file).snapshot(NOW)
    with_shares = _open_ms(snapshot, Configuration(plugins=(PluginChoice("proportion"),)))
    return with_shares - _open_ms(snapshot, Configuration(plugins=()))


def _open_ms(snapshot: Snapshot, configuration: Configuration) -> float:
    spent = []
    for _ in range(REPEAT):
        began = time.process_time()
        open_session(snapshot, configuration)
        spent.append(time.process_time() - began)
    return min(spent) * 1e3


def _row(name: str, nodes: int, done: Replayed, figure: GoFigure, ratio: float | None) -> dict[str, object]:
    return {
        "workload": name,
        "nodes": nodes,
        "pods": done.pods,
        **{f"{step}_ms": done.cpu_ms(step) for step in ("load", "open", "allocate", "total")},
        "others_ms": done.cpu_ms("total") - done.cpu_ms("open") - done.cpu_ms("allocate"),
        "us_per_pod": done.cpu_ms("total") * 1e3 / done.pods,
        "peak_rss_mb": done.peak_rss_mb,
        "go_ms": figure.text,
        "times_less": ratio,
    }


def _ratio(figure: GoFigure, ours_ms: float) -> float | None:
    return None if figure.low is None else figure.low / ours_ms
