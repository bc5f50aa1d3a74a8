"""Gangs that must each be in one rack, beside the Go scheduler; and how soon one that fits in no rack is told so.

`topology` has 20 gangs of 64 pods, each within one rack of 16 nodes with 8 GPUs. The second table is one gang that is a
pod too large for any rack, with the snapshot already there: the decision, with every domain looked at.
"""

from __future__ import annotations

import time

from benchmarks.go_figure import for_nodes, read_table
from benchmarks.perf import REPEAT
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import perf_folder, replay, workload
from bosket.scheduler.decide import decide
from bosket.scheduler.framework.configuration import Configuration
from bosket.testing.build import gang, job, node, pod_group, queue, topology, within
from bosket.testing.cluster import reasons, snapshot_of

SIZES = (1024, 2048, 4096)
PODS = 20 * 64
PROMISED_RATIO = 5

HOPELESS_NODES, RACK_NODES, GPUS = 5_000, 16, 8
PROMISED_MS = 50.0

COLUMNS = (
    Column("workload", "workload"),
    Column("nodes", "nodes", number()),
    Column("binds", "binds", number()),
    Column("open_ms", "open", number(unit=" ms")),
    Column("allocate_ms", "allocate", number(unit=" ms")),
    Column("total_ms", "total", number(unit=" ms")),
    Column("go_ms", "Go", lambda text: f"{text} ms" if text else "–"),
    Column("times_less", "times less", number(1)),
)


def run() -> Report:
    report = Report("Gangs in one rack, CPU time", COLUMNS)
    go = read_table(perf_folder() / "kai.md")
    for nodes in SIZES:
        progress(f"topology, {nodes} nodes")
        with workload("topology", n=nodes) as file:
            done = replay(file, 2 * REPEAT)
        figure = for_nodes(go, "topology", nodes)
        ratio = (figure.low or 0.0) / done.cpu_ms("total")
        report.rows.append(
            {
                "workload": "20 gangs of 64",
                "nodes": nodes,
                "binds": done.binds,
                **{f"{step}_ms": done.cpu_ms(step) for step in ("open", "allocate", "total")},
                "go_ms": figure.text,
                "times_less": ratio,
            }
        )
        report.expect(done.binds == PODS, f"{nodes} nodes: {done.binds} pods are bound, not {PODS}")
        report.expect(ratio >= PROMISED_RATIO, f"{nodes} nodes: {ratio:.1f} times less CPU, not {PROMISED_RATIO}")
    _measure_hopeless(report, running=False)
    _measure_hopeless(report, running=True)
    report.notes.append("times less: the low end of the Go figure by our total. ~: by the exponent of smaller sizes.")
    return report


def _measure_hopeless(report: Report, *, running: bool) -> None:
    """A gang that is one pod too large for every rack; the cluster is empty, or full of jobs of a queue over quota."""
    name = f"a gang that fits in no rack, {'full' if running else 'empty'} cluster"
    progress(f"{name}, {HOPELESS_NODES} nodes")
    size = RACK_NODES * GPUS + 1
    names = [f"n{i:05}" for i in range(HOPELESS_NODES)]
    others = [each for i, on in enumerate(names) for each in job(f"other-{i}", GPUS, on=on, queue="poor")]
    snapshot = snapshot_of(
        [
            node(name, gpus=GPUS, zone=f"z{i // (8 * RACK_NODES):03}", rack=f"r{i // RACK_NODES:04}")
            for i, name in enumerate(names)
        ],
        [queue("q", quota=HOPELESS_NODES * GPUS), queue("poor", quota=0)],
        topology("t", "zone", "rack"),
        others if running else [],
        [pod_group("g", min_member=size, topology=within("t", "rack")), *gang("g", size)],
    )
    spent, told = [], ""
    for _ in range(2 * REPEAT):
        began = time.process_time()
        decisions = decide(snapshot, Configuration())
        spent.append((time.process_time() - began) * 1e3)
        told = reasons(decisions)["g"]
    row = {"workload": name, "nodes": HOPELESS_NODES, "binds": 0, "total_ms": min(spent), "go_ms": ""}
    report.rows.append(row)
    report.expect("couldn't be satisfied" in told, f"{name}: it is told {told!r}")
    report.expect(min(spent) < PROMISED_MS, f"{name}: its answer takes {min(spent):.0f} ms")
