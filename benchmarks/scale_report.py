"""What `scale` measured, as a table beside KAI's published figures and the Go stack's, and what isn't as promised."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.report import Column, Report
from benchmarks.stack_cluster import GPUS_PER_NODE
from benchmarks.stack_report import processes_table, short_figure, writes_table
from benchmarks.stack_run import GANG_PODS, UNSCHEDULABLE_PODS, Measured
from benchmarks.stack_scene import median

#: What is promised for 500 nodes on two cores that have nothing else to do.
PODS_PER_SECOND, GANG_SECONDS, TOLD_SECONDS, RECLAIM_SECONDS, SERVICES_MS = 30.0, 8.0, 1.0, 0.5, 15.0

COLUMNS = (
    Column("what", "what"),
    Column("found", "Bosket"),
    Column("kai", "KAI, 500 nodes, 3–5 CPUs"),
    Column("go", "Go stack, 125 nodes, two cores"),
    Column("aim", "aim"),
)
Show = Callable[[Measured], str]


def report(nodes: int, found: Measured, kai: Mapping[str, str], go: Mapping[str, str]) -> Report:
    """`kai`, `go`: what was measured → result, as `perf/kai.md` has it."""
    made = Report(f"KAI's scale suite on {nodes} nodes of {GPUS_PER_NODE} GPUs, {found.jobs:,} one-GPU Jobs", COLUMNS)
    gangs = (GPUS_PER_NODE // 2 + 1) * nodes // ((GPUS_PER_NODE // 2 + 2) * GANG_PODS)
    rows: tuple[tuple[str, Show | None, str, str, str], ...] = (
        ("fill, Jobs there before the scheduler", _rate("before"), "fill with 4,000", "fill, pods there before", ""),
        ("fill while Jobs are submitted", _rate("while"), "while they are", "fill while they are", "30 pods/s"),
        ("created → bound in that fill, median", lambda each: f"{each.wait_s:.1f} s", "", "", ""),
        (f"gang of {found.gang} pods", _seconds("gang"), "one 512-pod gang", "one gang of 512", "8 s"),
        (f"gang of {found.gang}, preferred topology", _seconds("gang topology"), "one 512-pod gang", "", "8 s"),
        (
            f"unschedulable, {UNSCHEDULABLE_PODS} × {GPUS_PER_NODE} GPUs, told; median, longest",
            _median_and_longest("unschedulable"),
            "",
            "unschedulable",
            "1 s",
        ),
        (
            "the same where reclaim fails at the last pod",
            _median_and_longest("failed reclaim"),
            'time to "unschedulable"',
            "",
            "",
        ),
        (
            f"reclaim of one GPU from {found.jobs:,}, median",
            _median("reclaim"),
            "reclaim one GPU",
            "reclaim of one GPU",
            "0.5 s",
        ),
        (
            f"reclaim for a gang of {nodes // 2} × {GPUS_PER_NODE} GPUs",
            _seconds("large reclaim"),
            "reclaim for a 250-pod",
            "",
            "",
        ),
        (f"consolidation for {gangs} gangs of {GANG_PODS}", _seconds("consolidation"), "consolidation", "", ""),
        ("writes of our services per Job", lambda each: f"{each.writes_per_job:.2f}", "", "API writes per", ""),
        ("CPU of our services per Job", lambda each: f"{each.services_cpu_ms_per_job:.1f} ms", "", "", "15 ms"),
        ("share of CPU: API server and etcd", _share("kube-apiserver", "etcd", "server"), "", "", ""),
        ("share of CPU: controllers and kwok", _share("kube-controller-manager", "kwok"), "", "", ""),
    )
    for what, show, kai_key, go_key, aim in rows:
        made.rows.append(
            {
                "what": what,
                "found": show(found) if show is not None else "–",
                "kai": _figure(kai, kai_key),
                "go": _figure(go, go_key),
                "aim": aim,
            }
        )
    made.details += [processes_table("control plane", found), writes_table(found)]
    _promise(made, found)
    return made


def _figure(table: Mapping[str, str], key: str) -> str:
    """The result whose row begins so; of fills, that part of KAI's cell that tells of the key."""
    if key == "while they are":
        cell = next((each for row, each in table.items() if row.startswith("fill with 4,000")), "")
        return next((part.strip().partition(" while")[0] for part in cell.split(";") if key in part), "–")
    return next((short_figure(cell) for row, cell in table.items() if key and row.startswith(key)), "–")


def _rate(scene: str) -> Show:
    def show(found: Measured) -> str:
        seconds = found.seconds.get(scene)
        return "–" if seconds is None else f"{seconds:.1f} s, {found.jobs / seconds:.0f} pods/s"

    return show


def _seconds(scene: str) -> Show:
    return lambda found: f"{found.seconds[scene]:.1f} s" if scene in found.seconds else "–"


def _median_and_longest(scene: str) -> Show:
    def show(found: Measured) -> str:
        times = found.named(scene)
        return f"{median(times):.2f} s, {max(times):.2f} s" if times else "–"

    return show


def _median(scene: str) -> Show:
    return lambda found: f"{median(found.named(scene)):.2f} s" if found.named(scene) else "–"


def _share(*processes: str) -> Show:
    return lambda found: f"{found.cpu_share(*processes):.0%}"


def _promise(made: Report, found: Measured) -> None:
    rate = found.jobs / found.seconds["while"]
    made.expect(rate >= PODS_PER_SECOND, f"{rate:.1f} pods a second are less than {PODS_PER_SECOND:.0f}")
    cpu = found.services_cpu_ms_per_job
    made.expect(cpu <= SERVICES_MS, f"{cpu:.1f} ms of CPU per Job are more than {SERVICES_MS:.0f}")
    for what, times, most in (
        (f"a gang of {found.gang}", found.named("gang"), GANG_SECONDS),
        ("to tell that there is no room", [median(found.named("unschedulable") or [0.0])], TOLD_SECONDS),
        ("to reclaim a GPU", [median(found.named("reclaim"))], RECLAIM_SECONDS),
    ):
        for seconds in times:
            made.expect(seconds <= most, f"{what}: {seconds:.2f} s are more than {most:g}")
