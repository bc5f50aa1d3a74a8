"""A hundred thousand requests that know the structure of what they break, against embedded API servers.

All kinds, all verbs, all types of patches, subresources, selectors, definitions with rules, policies with expressions
(`tests/fuzz/request_campaign.py`). Promised: no answer that is the server's mistake, no exception in its log, no answer
that takes longer than five seconds, and never more than a gibibyte of memory.
"""

from __future__ import annotations

import asyncio
import faulthandler
from pathlib import Path
from time import process_time

from benchmarks.report import Column, Report, number, progress
from tests.fuzz.request_campaign import Campaign, Results

REQUESTS = 100_000
#: Each on a server of its own, so that what one breaks doesn't keep the others from going further.
CAMPAIGNS = 10
PROMISED_MEBIBYTES = 1024
#: A campaign that takes longer hangs.
HANGS_SECONDS = 900

COLUMNS = (
    Column("seed", "seed"),
    Column("requests", "requests", number()),
    Column("carried_out", "carried out", number()),
    Column("refused", "refused", number()),
    Column("mistakes", "mistakes", number()),
    Column("kinds", "kinds", number()),
    Column("stored", "kinds stored", number()),
    Column("cpu_seconds", "CPU", number(0, " s")),
    Column("worst_ms", "slowest", number(0, " ms")),
    Column("resident_mib", "memory", number(0, " MiB")),
)


def run(first_seed: int = 0) -> Report:
    """Campaigns of this seed and of those that follow it."""
    report = Report(f"{REQUESTS:,} requests that are broken on purpose", COLUMNS)
    for seed in range(first_seed, first_seed + CAMPAIGNS):
        progress(f"campaign of seed {seed}")
        began = process_time()
        faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)  # says where, if the loop itself is stuck
        results = asyncio.run(Campaign(seed).run(REQUESTS // CAMPAIGNS))
        faulthandler.cancel_dump_traceback_later()
        report.rows.append(_row(results, process_time() - began))
        for failure in results.failures.values():
            report.expect(False, f"seed {seed}, request {failure.number}: {failure.what}\n  {failure.request}")
    slowest = max(report.rows, key=lambda row: row["worst_ms"])
    report.notes.append(f"the slowest: {slowest['worst_request'][:300]}")
    peak = _peak_mebibytes()
    report.notes.append(f"most memory at any time: {peak:,.0f} MiB")
    report.expect(peak <= PROMISED_MEBIBYTES, f"memory of at most {PROMISED_MEBIBYTES} MiB, not {peak:,.0f}")
    return report


def _row(results: Results, cpu_seconds: float) -> dict[str, object]:
    carried_out = sum(count for status, count in results.by_status.items() if status < 400)
    return {
        "seed": str(results.seed),
        "requests": results.requests,
        "carried_out": carried_out,
        "refused": sum(results.by_status.values()) - carried_out,
        "mistakes": len(results.failures),
        "kinds": len(results.kinds),
        "stored": len(results.stored),
        "cpu_seconds": cpu_seconds,
        "worst_ms": results.worst_seconds * 1000,
        "worst_request": results.worst_request,
        "resident_mib": results.resident_mebibytes,
        "by_status": dict(sorted(results.by_status.items())),
        "by_action": dict(results.by_action),
    }


def _peak_mebibytes() -> float:
    """The most that this process ever had of the machine's memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
