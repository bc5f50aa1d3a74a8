"""Runs the benchmarks named, or all of them."""

from __future__ import annotations

import sys

from benchmarks import cycle, gangs

BENCHMARKS = {"gangs": gangs.main, "cycle": cycle.main}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()
    return 0


sys.exit(main(sys.argv[1:]))
