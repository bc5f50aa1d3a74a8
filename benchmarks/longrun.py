"""Random clusters followed through 140 cycles each, every other one with restarts; events are late and overtake others.

What must hold is checked in every cycle (`tests/scheduler/longrun.py`). `BOSKET_LONGRUN_CLUSTERS` says how many
clusters there are, 10,000 by default, `BOSKET_LONGRUN_FIRST` which seed the first one has.
"""

from __future__ import annotations

import os
import time
from collections import Counter

from benchmarks.report import Column, Report, number, progress
from tests.scheduler.longrun import follow

CLUSTERS = int(os.environ.get("BOSKET_LONGRUN_CLUSTERS", "10000"))
FIRST = int(os.environ.get("BOSKET_LONGRUN_FIRST", "0"))

COLUMNS = (
    Column("clusters", "clusters", number()),
    Column("pods", "pods", number()),
    Column("evictions", "evictions", number()),
    Column("worst", "most in one", number()),
    Column("cpu_s", "CPU", number(0, " s")),
)


def run() -> Report:
    report = Report("Random clusters through many cycles", COLUMNS)
    started = time.process_time()
    actions: Counter[str] = Counter()
    pods = worst = 0
    for seed in range(FIRST, FIRST + CLUSTERS):
        if seed % 500 == 0:
            progress(f"cluster {seed - FIRST:,} of {CLUSTERS:,}")
        try:
            story = follow(seed, restarts=seed % 2 == 1)
        except AssertionError as error:
            report.broken.append(str(error))
            continue
        actions.update(story.actions)
        pods += story.pods
        worst = max(worst, story.evicted)
    report.rows.append(
        {
            "clusters": CLUSTERS,
            "pods": pods,
            "evictions": sum(actions.values()),
            "worst": worst,
            "cpu_s": time.process_time() - started,
        }
    )
    told = ", ".join(f"{count:,} by {action}" for action, count in actions.most_common())
    report.notes.append(f"Evictions: {told}.")
    return report
