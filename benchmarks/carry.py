"""What one scheduler carries, and what a fleet of shards does: sections of pages that follow from measured figures.

Called by `page` with all that is kept in `docs/benchmarks.json`. A section whose reports aren't kept yet is None, and
stays as it is. What lies beyond the sizes that were measured is carried on by the last two of them, and has a ~.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks import idle
from benchmarks.growth import Curve, curves, value_at
from benchmarks.report import Figures

Measured = Mapping[str, Any]

GPUS_PER_NODE: Final = 8
#: What the page is about, in GPUs.
FLEET_GPUS: Final = 100_000
SHARDS: Final = (1, 3, 5, 10)
#: How long a pod lives, in words and in seconds, and how many GPUs it has.
LIVES: Final = (("10 minutes", 600, 1), ("an hour", 3600, 1), ("an hour", 3600, 8), ("a day", 86_400, 8))
#: Processes that aren't ours; `server` is all of them, in the embedded cluster.
CONTROL_PLANE: Final = ("kube-apiserver", "etcd", "kube-controller-manager", "kwok", "server")
SERVICES_ROW: Final = "all our services"


def summary(kept: Measured) -> str | None:
    """Every workload at the size that a promise beside Go is given for, or at the largest that Go was measured at."""
    if "cycle" not in kept:
        return None
    best: dict[str, Figures] = {}
    for row in kept["cycle"]["rows"]:
        if row["go_ms"] is not None and not row["go_text"].startswith("~"):
            name = row["workload"]
            best[name] = max(best.get(name, row), row, key=lambda each: each["nodes"])
    lines = (
        (name, f"{row['nodes']:,}", f"{row['pods']:,}", _time(row["total_ms"]), _time(row["go_ms"]),
         f"{row['times_less']:,.0f}")
        for name, row in best.items()
    )  # fmt: skip
    return _table(("workload", "nodes", "pods", "Bosket, CPU", "Go, CPU", "times less"), lines)


def one_scheduler(kept: Measured) -> str | None:
    """What the largest clusters that were measured cost one scheduler."""
    if "cycle" not in kept or "idle" not in kept:
        return None
    largest = {row["workload"]: row for row in kept["cycle"]["rows"]}  # sizes are in order
    lines = []
    for name, what in (("fill", "gangs of 8 fill the cluster"), ("small", "single pods fill the cluster")):
        row = largest[name]
        rate = row["pods"] / row["total_ms"] * 1e3
        lines.append((what, *_size(row), f"{_time(row['total_ms'])} of CPU: {rate:,.0f} pods a second"))
        lines.append(("… memory at its peak", *_size(row), f"{row['peak_rss_mb']:,.0f} MB"))
    row = largest["mixed, 2,000 jobs"]
    lines.append(
        ("2,000 jobs wait in a contended cluster: all searches", *_size(row), f"{_time(row['total_ms'])} of CPU")
    )
    for row in kept["idle"]["rows"]:
        rate = f": {1e3 / row['cpu_ms']:,.0f} a second" if row["cpu_ms"] >= 0.1 else ""
        size = (f"{idle.NODES:,}", f"{idle.NODES * idle.PODS_PER_NODE:,}")
        lines.append((row["cycle"], *size, f"{row['cpu_ms']:.2f} ms of CPU{rate}"))
    return _table(("what", "nodes", "pods", "cost"), lines)


def shards(kept: Measured) -> str | None:
    """100,000 GPUs as one shard, and as several."""
    if "cycle" not in kept:
        return None
    costs = curves(kept["cycle"]["rows"], "total_ms")
    memory = curves(kept["cycle"]["rows"], "peak_rss_mb")
    lines = []
    for count in SHARDS:
        nodes = math.ceil(FLEET_GPUS / GPUS_PER_NODE / count)
        lines.append(
            (
                str(count),
                f"{nodes:,}",
                f"{nodes * GPUS_PER_NODE:,}",
                *(_at(costs[name], nodes, _time) for name in ("fill", "small", "mixed, 2,000 jobs")),
                _at(memory["small"], nodes, lambda mb: f"{mb:,.0f} MB"),
            )
        )
    titles = (
        "shards", "nodes each", "GPUs each", "all filled by gangs of 8", "by single pods", "2,000 contended jobs",
        "memory, a pod on every GPU",
    )  # fmt: skip
    return _table(titles, lines)


def api_server(kept: Measured) -> str | None:
    """What pods cost the control plane and our services when 100,000 GPUs are in use."""
    found = next((kept[name] for name in ("scale", "stack") if name in kept), None)
    if found is None:
        return None
    processes = next(each for each in found["details"] if each["title"].startswith("Processes on the"))["rows"]
    by_name = {row["process"]: row for row in processes}
    control_ms = sum(by_name[name]["cpu_ms_per_job"] for name in CONTROL_PLANE if name in by_name)
    services_ms, writes = (by_name[SERVICES_ROW][column] for column in ("cpu_ms_per_job", "writes_per_job"))
    lines = []
    for words, seconds, gpus in LIVES:
        rate = FLEET_GPUS / gpus / seconds
        costs = (f"{rate * cost_ms / 1e3:,.1f}" for cost_ms in (control_ms, services_ms))
        lines.append((f"{words}, {gpus} GPU{'s' if gpus > 1 else ''}", f"{rate:,.1f}", f"{rate * writes:,.0f}", *costs))
    titles = (
        "a pod lives, and has",
        "pods a second",
        "our writes a second",
        "cores: control plane",
        "cores: our services",
    )
    measured = (
        f"A pod costs the control plane {control_ms:.0f} ms of CPU and our services {services_ms:.1f} ms, "
        f"with {writes:.1f} writes of ours.\n"
    )
    return f"{measured}\n{_table(titles, lines)}"


DERIVED: Final[Mapping[str, Callable[[Measured], str | None]]] = {
    "summary": summary,
    "one scheduler": one_scheduler,
    "shards": shards,
    "api server": api_server,
}


def _at(curve: Curve, nodes: int, show: Callable[[float], str]) -> str:
    """The cost at a size; with a ~ beyond those that were measured."""
    return f"{'' if min(curve) <= nodes <= max(curve) else '~'}{show(value_at(curve, nodes))}"


def _size(row: Figures) -> tuple[str, str]:
    return f"{row['nodes']:,}", f"{row['pods']:,}"


def _time(ms: float) -> str:
    return f"{ms / 1e3:,.1f} s" if ms >= 1000 else f"{ms:,.0f} ms"


def _table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    ruler = ["---", *["--:"] * (len(titles) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, ruler, *lines))
