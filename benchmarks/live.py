"""The live path: a cold start, single events, a storm of them, and what a pod takes of memory. CPU time.

Each scene runs in a process of its own (`benchmarks.live_scene`) on a cluster that `benchmarks.live_cluster` tells of.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec

from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured

NODES, PODS = 5_000, 40_000
COLD_PODS = 50_000
STORM_EVENTS_PER_SECOND, STORM_SECONDS = 10_000, 60

PROMISED_COLD_SECONDS = 4.0
PROMISED_KB_PER_POD = 10.0
PROMISED_EVENT_MS = 3.0
PROMISED_HOLD_MS = 50.0
#: What a storm may add to the memory, however long it lasts.
PROMISED_GROWTH_MB = 64.0

COLUMNS = (
    Column("what", "what"),
    Column("value", "measured", number(2)),
    Column("unit", "unit"),
    Column("promised", "promised", number(1)),
)


def run(storm_seconds: int = STORM_SECONDS) -> Report:
    report = Report(f"The live path: {NODES:,} nodes, {PODS:,} pods", COLUMNS)
    progress(f"cold start with {COLD_PODS:,} pods")
    cold = _scene("cold", NODES, COLD_PODS)
    _add(report, f"{COLD_PODS:,} pods, cold, to the first decision", cold["cpu_s"], "s CPU", PROMISED_COLD_SECONDS)
    _add(report, "of it a pod", cold["us_per_pod"], "µs CPU")
    _add(report, "memory of a pod, nodes and groups included", cold["kb_per_pod"], "KB", PROMISED_KB_PER_POD)
    _add(report, "longest hold of the loop while lists come in", cold["listing_hold_ms"], "ms CPU", PROMISED_HOLD_MS)
    progress("single events")
    for name, figures in _scene("events", NODES + 10, PODS).items():
        _add(report, f"{name}, with its cycle", figures["cpu_ms"], "ms CPU", PROMISED_EVENT_MS)
        _add(report, "at worst", figures["worst_ms"], "ms CPU")
    progress(f"{STORM_EVENTS_PER_SECOND:,} events a second for {storm_seconds} s")
    storm = _scene("storm", NODES, PODS, STORM_EVENTS_PER_SECOND, storm_seconds)
    _add(report, f"storm of {storm['events']:,} events: each", storm["us_per_event"], "µs CPU")
    _add(report, "storm: CPU seconds in a second", storm["load"], "", 1.0)
    _add(report, "storm: longest hold of the loop by events", storm["hold_ms"], "ms CPU", PROMISED_HOLD_MS)
    _add(report, "storm: longest cycle", storm["cycle_ms"], "ms CPU")
    _add(report, "storm: memory that it adds, at most", storm["grown_mb"], "MB", PROMISED_GROWTH_MB)
    return report


def _add(report: Report, what: str, value: float, unit: str, promised: float | None = None) -> None:
    report.rows.append({"what": what, "value": value, "unit": unit, "promised": promised})
    if promised is not None:
        report.expect(value <= promised, f"{what}: {value:.2f} {unit}, not {promised:g}")


def _scene(name: str, *numbers: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.live_scene", name, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise NotMeasured(f"{' '.join(command[1:])}: {done.stderr.decode().strip()}")
    found: dict[str, Any] = msgspec.json.decode(done.stdout)
    return found
