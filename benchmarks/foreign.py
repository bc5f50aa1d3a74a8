"""Controllers that others wrote, at work on the embedded API server: kube-controller-manager, kube-scheduler, an
operator on kopf, and an election of the official client. `--minutes` says for how long, ten by default.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import Column, Report, number, progress
from benchmarks.workload import NotMeasured
from tests.controlplane import assets
from tests.foreign import run as foreign

COLUMNS = (
    Column("minutes", "minutes", number(1)),
    Column("rounds", "rounds", number()),
    Column("jobs", "jobs", number()),
    Column("pods", "pods", number()),
    Column("greetings", "greetings", number()),
    Column("first_mib", "first", number(0, " MiB")),
    Column("half_mib", "half-time", number(0, " MiB")),
    Column("last_mib", "last", number(0, " MiB")),
    Column("cpu_s", "server's CPU", number(0, " s")),
)


def run(minutes: float = 10.0) -> Report:
    report = Report("Foreign controllers on the embedded server", COLUMNS)
    binaries = assets.find(progress)
    if binaries is None:
        raise NotMeasured(
            "kube-controller-manager and kube-scheduler are not built: `python -m tests.controlplane build`"
        )
    folder = Path(tempfile.mkdtemp(prefix="bosket-foreign-"))
    outcome = foreign.run(binaries, folder, minutes * 60, progress)
    memory = outcome.memory_mib or [0.0]
    counts = outcome.done.counts
    report.rows.append(
        {
            "minutes": minutes,
            **{key: counts[key] for key in ("rounds", "jobs", "pods", "greetings")},
            "first_mib": memory[0],
            "half_mib": memory[len(memory) // 2],
            "last_mib": memory[-1],
            "cpu_s": outcome.server_cpu_seconds,
        }
    )
    slowest = sorted(outcome.done.longest.items(), key=lambda each: -each[1])
    report.notes.append("The longest of each: " + ", ".join(f"{what} {taken:.1f} s" for what, taken in slowest) + ".")
    report.notes.append(f"Logs: {folder}")
    report.broken += outcome.broken
    return report
