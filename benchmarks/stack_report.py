"""What `stack` measured, as tables beside the Go stack's figures, and what of it isn't as promised."""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.report import Column, Report, number
from benchmarks.stack_cluster import SERVICES, USER_PREFIX
from benchmarks.stack_run import Measured
from benchmarks.stack_scene import median

#: What is promised on a real control plane.
PODS_PER_SECOND, WRITES_PER_JOB, GANG_SECONDS, TOLD_SECONDS, RECLAIM_SECONDS = 30.0, 8.0, 20.0, 2.0, 2.0

SUMMARY = (
    Column("what", "what"),
    Column("real", "real control plane"),
    Column("go", "Go stack"),
    Column("aim", "aim"),
    Column("embedded", "embedded, 4,000 pods"),
)
PROCESSES = (
    Column("process", "process"),
    Column("cpu_s", "CPU", number(2, " s")),
    Column("cpu_ms_per_job", "per Job", number(2, " ms")),
    Column("memory_mib", "memory", number(0, " MiB")),
    Column("writes_per_job", "writes per Job", number(2)),
)
WRITES = (
    Column("author", "author"),
    Column("verb", "verb"),
    Column("resource", "resource"),
    Column("per_job", "per Job", number(2)),
    Column("refused", "refused", number(0)),
)


def report(real: Measured, embedded: Measured, go: dict[str, str]) -> Report:
    made = Report("The whole stack beside the Go stack", SUMMARY)
    for what, figure, key, aim in (
        ("fill, pods there before the scheduler starts", _rate("before"), "fill, pods there before", "30 pods/s"),
        ("fill while they are submitted", _rate("while"), "fill while they are", "30 pods/s"),
        ("created → bound, median", lambda each: f"{each.wait_s:.1f} s", "", ""),
        ("writes of our services per Job", lambda each: f"{each.writes_per_job:.2f}", "API writes per", "8"),
        (f"one gang of {real.gang}", _time("gang"), "one gang of 512", "20 s"),
        ("unschedulable, 10 × 8 GPUs, told", _time("unschedulable"), "unschedulable", "2 s"),
        ("reclaim of one GPU, median", _reclaim, "reclaim of one", "2 s"),
    ):
        told = next((short_figure(cell) for row, cell in go.items() if key and row.startswith(key)), "–")
        made.rows.append({"what": what, "real": figure(real), "go": told, "aim": aim, "embedded": figure(embedded)})
    made.details += [processes_table("real control plane", real), writes_table(real)]
    made.details.append(processes_table("embedded cluster", embedded))
    _promise(made, real)
    return made


def short_figure(cell: str) -> str:
    """The figure without what is told about it."""
    return re.split(r"[;(]|, most", cell)[0].strip()


def _rate(scene: str) -> Callable[[Measured], str]:
    def show(found: Measured) -> str:
        seconds = found.seconds.get(scene)
        return "–" if seconds is None else f"{seconds:.1f} s, {found.jobs / seconds:.0f} pods/s"

    return show


def _time(scene: str) -> Callable[[Measured], str]:
    return lambda found: f"{found.seconds[scene]:.1f} s"


def _reclaim(found: Measured) -> str:
    return f"{median(found.named('reclaim')):.1f} s"


def processes_table(title: str, found: Measured) -> Report:
    made = Report(f"Processes on the {title}: {found.jobs:,} Jobs while they are submitted", PROCESSES)
    made.rows += [_process(found, name, [name]) for name in found.cpu_s]
    made.rows.append(_process(found, "all our services", list(SERVICES)))
    made.notes.append(f"Submitting took {found.submitted_s:.1f} s.")
    return made


def _process(found: Measured, title: str, names: list[str]) -> dict[str, object]:
    cpu_s = sum(found.cpu_s[name] for name in names)
    counted = [found.counted[name] for name in names if name in found.counted]
    return {
        "process": title,
        "cpu_s": cpu_s,
        "cpu_ms_per_job": cpu_s / found.jobs * 1e3,
        "memory_mib": sum(found.memory_mib[name] for name in names),
        "writes_per_job": sum(counted) / found.jobs if counted else None,
    }


def writes_table(found: Measured) -> Report:
    """By author, most first; what hardly happens is left out."""
    made = Report("API writes on the real control plane, by the API server's audit log", WRITES)
    kinds: dict[tuple[str, str, str], list[int]] = {}
    for write, count in found.writes.items():
        author = write.author.removeprefix("system:serviceaccount:kube-system:")
        row = kinds.setdefault((author, write.verb, write.resource), [0, 0])
        row[0] += count
        row[1] += count * write.refused
    for (author, verb, resource), (count, refused) in sorted(
        kinds.items(), key=lambda item: (not item[0][0].startswith(USER_PREFIX), -item[1][0])
    ):
        if count / found.jobs >= 0.005:
            made.rows.append(
                {
                    "author": author,
                    "verb": verb,
                    "resource": resource,
                    "per_job": count / found.jobs,
                    "refused": refused,
                }
            )
    everybody = found.writes.total()
    ours = sum(count for write, count in found.writes.items() if write.author.startswith(USER_PREFIX))
    made.notes.append(
        f"{everybody / found.jobs:.1f} writes per Job by everybody, {ours / found.jobs:.2f} by our services."
    )
    return made


def _promise(made: Report, real: Measured) -> None:
    rate = real.jobs / real.seconds["while"]
    made.expect(rate >= PODS_PER_SECOND, f"{rate:.1f} pods a second are less than {PODS_PER_SECOND:.0f}")
    made.expect(
        real.writes_per_job <= WRITES_PER_JOB,
        f"{real.writes_per_job:.2f} writes per Job are more than {WRITES_PER_JOB:.0f}",
    )
    for what, seconds, most in (
        (f"a gang of {real.gang}", real.seconds["gang"], GANG_SECONDS),
        ("to tell that there is no room", real.seconds["unschedulable"], TOLD_SECONDS),
        ("to reclaim a GPU", median(real.named("reclaim")), RECLAIM_SECONDS),
    ):
        made.expect(seconds <= most, f"{what}: {seconds:.1f} s are more than {most:.0f}")
