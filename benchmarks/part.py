"""Parts of a cycle by themselves: dividing fair shares, and the answer to a gang that fits in no rack. CPU time.

Both have the snapshot already. The Go scheduler was measured with the division of shares alone, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.go_figure import for_queues, read_table
from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import perf_folder, workload
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide, open_session
from bosket.scheduler.recording.recorded import load
from bosket.testing.build import job, node, pod, pod_group, queue, topology, within
from bosket.testing.cluster import NOW, reasons, snapshot_of

#: Leaf queues, and how many there are with those above them.
QUEUES = {1000: 1050, 10_000: 10_500}
FAIR_SHARE_NODES = 100
REPEAT = 14

HOPELESS_NODES, RACK_NODES, GPUS = 5_000, 16, 8
PROMISED_MS = 50.0

COLUMNS = (
    Column("part", "part"),
    Column("nodes", "nodes", number()),
    Column("total_ms", "CPU", number(1, " ms")),
    Column("go_text", "Go, ms", lambda text: text or "–"),
    Column("times_less", "times less", number(1)),
)


def run() -> Report:
    report = Report("Parts of a cycle, CPU time", COLUMNS)
    go = read_table(perf_folder() / "kai.md")
    for leaves, queues in QUEUES.items():
        name = f"dividing shares among {queues:,} queues"
        progress(name)
        with workload("fairshare", n=FAIR_SHARE_NODES, leaves=leaves) as file:
            spent_ms = _division_ms(file)
        figure = for_queues(go, queues)
        row = {"part": name, "nodes": FAIR_SHARE_NODES, "total_ms": spent_ms, "go_text": figure.text}
        report.rows.append({**row, "times_less": None if figure.low is None else figure.low / spent_ms})
    for running in (False, True):
        for is_mixed in (False, True):
            _measure_hopeless(report, running=running, is_mixed=is_mixed)
    return report


def _division_ms(file: Path) -> float:
    """What a session with the plugin that divides shares costs more than one without."""
    snapshot = load(file).snapshot(NOW)
    with_shares = Configuration(plugins=(PluginChoice("proportion"),))
    without = Configuration(plugins=())
    return _least_ms(lambda: open_session(snapshot, with_shares)) - _least_ms(lambda: open_session(snapshot, without))


def _measure_hopeless(report: Report, *, running: bool, is_mixed: bool) -> None:
    """A gang that is one pod too large for every rack; the cluster is empty, or full of jobs of a queue over quota.

    `is_mixed`: it has pods of half a node's GPUs, of all of them, and one of a single GPU.
    """
    kind = "a gang of different pods" if is_mixed else "a gang"
    name = f"{kind} that fits in no rack, {'full' if running else 'empty'} cluster"
    progress(f"{name}, {HOPELESS_NODES} nodes")
    gpus = [GPUS] * (RACK_NODES // 2) + [GPUS // 2] * RACK_NODES if is_mixed else [1] * (RACK_NODES * GPUS)
    gpus.append(1)
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
        [pod_group("g", min_member=len(gpus), topology=within("t", "rack"))],
        [pod(f"g-{i}").gpu(each).of_group("g").build() for i, each in enumerate(gpus)],
    )
    told = reasons(decide(snapshot, Configuration()))["g"]
    spent_ms = _least_ms(lambda: decide(snapshot, Configuration()))
    report.rows.append({"part": name, "nodes": HOPELESS_NODES, "total_ms": spent_ms})
    report.expect("couldn't be satisfied" in told, f"{name}: it is told {told!r}")
    report.expect(spent_ms < PROMISED_MS, f"{name}: its answer takes {spent_ms:.0f} ms")


def _least_ms(once: Callable[[], object]) -> float:
    """The least CPU time of several calls."""
    spent = []
    for _ in range(REPEAT):
        began = time.process_time()
        once()
        spent.append(time.process_time() - began)
    return min(spent) * 1e3
