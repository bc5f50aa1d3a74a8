"""Runs the benchmarks named, or the usual ones, and prints tables or JSON. Exit code 1: something isn't as promised."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial

from benchmarks import apiserver, evict, foreign, gangs, grove, growth, idle, longrun, perf, stack, topology
from benchmarks.grove_shape import SHAPES
from benchmarks.report import Report
from benchmarks.workload import NotMeasured

BENCHMARKS: Mapping[str, Callable[[], Report]] = {
    "perf": perf.run,
    "evict": evict.run,
    "topology": topology.run,
    "growth": growth.run,
    "idle": idle.run,
    "gangs": gangs.run,
    "grove": grove.run,
    "apiserver": apiserver.run,
    "longrun": longrun.run,
    "foreign": foreign.run,
    "stack": stack.run,
}
#: Only run when they are named: they take their time.
LONG = ("apiserver", "longrun", "foreign", "stack", "grove")


def main() -> int:
    usual = [name for name in BENCHMARKS if name not in LONG]
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}; by default {', '.join(usual)}"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long `foreign` runs; 10 by default")
    parser.add_argument("--pods", type=int, default=1_000, help="how many pods `grove` has; 1000 by default")
    parser.add_argument("--shape", choices=SHAPES, default="inference", help="what `grove`'s sets look like")
    arguments = parser.parse_args()
    benchmarks: dict[str, Callable[[], Report]] = {
        **BENCHMARKS,
        "foreign": partial(foreign.run, arguments.minutes),
        "grove": partial(grove.run, arguments.pods, arguments.shape),
    }
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}")
    reports: dict[str, Report] = {}
    failed = False
    for name in arguments.names or usual:
        try:
            reports[name] = benchmarks[name]()
        except NotMeasured as error:
            print(f"benchmark {name}: {error}", file=sys.stderr)
            failed = True
            continue
        if not arguments.json:
            reports[name].print()
    if arguments.json:
        print(json.dumps({name: report.as_json() for name, report in reports.items()}, indent=2))
    return int(failed or any(report.broken for report in reports.values()))


if __name__ == "__main__":
    sys.exit(main())
