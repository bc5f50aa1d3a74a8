"""Runs the benchmarks named, or the usual ones, and prints tables or JSON. Exit code 1: something isn't as promised.

With `--write` the figures are kept in `docs/benchmarks.json`, and pages that show them are renewed, with the chart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks import (
    apiserver,
    check,
    cycle,
    documents,
    evictions,
    explain,
    foreign,
    fragmentation,
    fuzz,
    fuzz_requests,
    gangs,
    grove,
    idle,
    live,
    longrun,
    loop_hold,
    page,
    part,
    plan,
    recording,
    responsive,
    scale,
    stack,
)
from benchmarks.chaos import run as chaos
from benchmarks.grove_shape import SHAPES
from benchmarks.report import Report
from benchmarks.workload import NotMeasured

BENCHMARKS: Mapping[str, Callable[[], Report]] = {
    "cycle": cycle.run,
    "part": part.run,
    "idle": idle.run,
    "live": live.run,
    "gangs": gangs.run,
    "grove": grove.run,
    "apiserver": apiserver.run,
    "longrun": longrun.run,
    "evictions": evictions.run,
    "hold": loop_hold.run,
    "responsive": responsive.run,
    "foreign": foreign.run,
    "stack": stack.run,
    "scale": scale.run,
    "chaos": partial(chaos.run, 30.0, chaos.SERVERS, 0),
    "fuzz": fuzz.run,
    "fuzz-requests": fuzz_requests.run,
    "documents": partial(documents.run, None),
    "fragmentation": fragmentation.run,
    "plan": plan.run,
    "check": check.run,
    "explain": explain.run,
    "recording": recording.run,
}
#: What `make bench` runs. The others take their time, and are run when they are named.
USUAL = ("cycle", "part", "idle", "gangs")


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; by default {', '.join(USUAL)}"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--write", action="store_true", help="keep the figures, and renew the pages that show them")
    parser.add_argument("--only", action="append", default=[], metavar="KIND", help="of `cycle`: only these workloads")
    parser.add_argument("--update", action="store_true", help="of `check`: commit to the ratios of this run")
    parser.add_argument(
        "--minutes", type=float, help="how long `foreign` and `responsive` (10 by default) and `chaos` (30) run"
    )
    parser.add_argument(
        "--server",
        choices=chaos.SERVERS,
        action="append",
        help="where `chaos` and `scale` run; by default `chaos` on both, `scale` on a real one",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="what `chaos` draws from, the first of `fuzz` and `fuzz-requests`; 0 by default",
    )
    parser.add_argument(
        "--nodes", type=int, default=scale.NODES, help=f"how many nodes `scale` has; {scale.NODES} by default"
    )
    parser.add_argument("--only-fill", action="store_true", help="of `scale`: only the fill while Jobs are submitted")
    parser.add_argument("--pods", type=int, default=1_000, help="how many pods `grove` has; 1000 by default")
    parser.add_argument("--shape", choices=SHAPES, default="inference", help="what `grove`'s sets look like")
    parser.add_argument(
        "--cases", type=int, help="how many snapshots `fuzz` (10⁵ by default) and clusters `plan` (500) make"
    )
    parser.add_argument("--save", type=Path, help="where `fuzz` writes snapshots that fail; a new folder by default")
    parser.add_argument("--folder", type=Path, help="whose YAML and Markdown files `documents` applies")
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[], Report]] = {
        **BENCHMARKS,
        "cycle": partial(cycle.run, arguments.only),
        "check": partial(check.run, update=arguments.update),
        "foreign": partial(foreign.run, arguments.minutes or 10.0),
        "responsive": partial(responsive.run, arguments.minutes or 10.0),
        "chaos": partial(
            chaos.run, arguments.minutes or 30.0, tuple(arguments.server or chaos.SERVERS), arguments.seed
        ),
        "fuzz-requests": partial(fuzz_requests.run, arguments.seed),
        "grove": partial(grove.run, arguments.pods, arguments.shape),
        "plan": partial(plan.run, arguments.cases or plan.CASES, arguments.seed),
        "fuzz": partial(fuzz.run, arguments.cases or fuzz.CASES, arguments.seed, arguments.save),
        "documents": partial(documents.run, arguments.folder),
        "scale": partial(scale.run, arguments.nodes, _scale_server(arguments.server), only_fill=arguments.only_fill),
    }
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    if arguments.write and arguments.only:
        parser.error("--only and --write: pages show all workloads")
    reports: dict[str, Report] = {}
    failed = False
    for name in arguments.names or USUAL:
        try:
            reports[name] = benchmarks[name]()
        except NotMeasured as error:
            print(f"benchmark {name}: {error}", file=sys.stderr)
            failed = True
            continue
        if not arguments.json:
            reports[name].print()
        if arguments.write:
            page.write({name: reports[name]})
    if arguments.json:
        print(json.dumps({name: report.as_json() for name, report in reports.items()}, indent=2))
    return int(failed or any(report.broken for report in reports.values()))


def _scale_server(named: list[str] | None) -> str:
    return named[0] if named else "real"


if __name__ == "__main__":
    sys.exit(main())
