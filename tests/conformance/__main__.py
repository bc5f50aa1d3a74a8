"""python -m tests.conformance PATH… — how far our decisions are those of KAI.

Prints a table and ends with `N passed, M failed`. Exit code 1 when a case fails that the file of allowed failures
doesn't name, or one passes that it names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.conformance.cases import conformance_folder
from tests.conformance.corpus import Selection, verdicts
from tests.conformance.ratchet import Comparison, compare, read_allowed
from tests.conformance.verdict import Outcome, Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    paths = options.paths or _default_paths()
    missing = [path for path in paths if not path.exists()]
    if missing or not paths:
        what = f"{missing[0]} doesn't exist" if missing else "no cases here"
        print(f"{what}; name a folder with recorded cases, or set BOSKET_SHARED", file=sys.stderr)
        return 2
    results = list(verdicts(paths, Selection(options.k)))
    comparison = compare(results, read_allowed(options.allowed) if options.allowed else frozenset())
    failed = sum(verdict.failed for verdict in results)
    passed = sum(verdict.outcome.good for verdict in results)
    total = f"{passed} passed, {failed} failed"
    if options.json:
        print(json.dumps(_as_json(results, passed, failed), indent=1))
        print(total, file=sys.stderr)
    else:
        if options.verbose:
            _print_differences(results)
        _print_table(results)
        if options.allowed:
            _print_comparison(comparison)
        print(total)
    return 0 if comparison.holds else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders with cases")
    parser.add_argument("--json", action="store_true", help="every verdict, as JSON")
    parser.add_argument("-k", default="", metavar="TEXT", help="only cases whose id contains TEXT")
    parser.add_argument("-v", "--verbose", action="store_true", help="the first difference of each case that has one")
    parser.add_argument("--allowed", type=Path, metavar="FILE", help="ids of cases that may fail, one a line")
    return parser


def _default_paths() -> list[Path]:
    return [folder for name in ("kai", "differential", "podgrouper", "grove") if (folder := conformance_folder(name))]


def _print_differences(results: Iterable[Verdict]) -> None:
    for verdict in results:
        if verdict.differences:
            more = f" (and {len(verdict.differences) - 1} more)" if len(verdict.differences) > 1 else ""
            print(f"{verdict.outcome} {verdict.case}: {verdict.differences[0]}{more}")


def _print_table(results: Iterable[Verdict]) -> None:
    groups: dict[str, Counter[Outcome]] = {}
    for verdict in results:
        groups.setdefault(verdict.group, Counter())[verdict.outcome] += 1
    width = max((len(name) for name in groups), default=0)
    columns = list(Outcome)
    print(f"{'group':<{width}}  " + "  ".join(f"{column:>9}" for column in columns))
    for name, counts in groups.items():
        print(f"{name:<{width}}  " + "  ".join(f"{counts[column] or '':>9}" for column in columns))


def _print_comparison(comparison: Comparison) -> None:
    for verdict in comparison.unexpected:
        print(f"fails, and is not in the list of allowed failures: {verdict.case}: {verdict.differences[0]}")
    for case in comparison.outdated:
        print(f"passes, and is in the list of allowed failures: {case}")


def _as_json(results: Iterable[Verdict], passed: int, failed: int) -> dict[str, object]:
    return {
        "passed": passed,
        "failed": failed,
        "cases": [
            {"id": each.case, "group": each.group, "outcome": each.outcome, "differences": list(each.differences)}
            for each in results
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
