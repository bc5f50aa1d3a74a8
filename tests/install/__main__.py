"""Makes the table of rights from what the code calls.

python -m tests.install [TESTS…]    run these tests (by default, those that reach every call), note which call site
                                    asks the API server for what, and write call_sites.txt and rights.txt
python -m tests.install --derive    write rights.txt from call_sites.txt, without running anything
python -m tests.install chart       write charts/bosket, and the snapshots of what it renders

Call sites that are still there keep what is known of them: after a change, the tests of what changed are enough.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from bosket.install import right as right_module
from bosket.install.chart import chart_files
from bosket.install.right import Right, format_rights
from tests.install.call_table import TABLE, format_table, known_keys, read_table, rights_from
from tests.install.recording import OUTPUT
from tests.install.rendering import CASES, CHART, rendered, snapshot_file

RIGHTS: Final = Path(right_module.__file__).with_name("rights.txt")
#: Tests of all services, of leases and of events.
_TESTS: Final = (
    *("tests/binder", "tests/podgrouper", "tests/podgroup_controller", "tests/queue_controller", "tests/admission"),
    *("tests/reservation", "tests/numa", "tests/node_scale_adjuster", "tests/operator"),
    *("tests/grove", "tests/grove_topology", "tests/grove_backends", "tests/grove_admission"),
    *("tests/runtime/test_leader.py", "tests/runtime/test_events.py"),
    *("tests/scheduler/test_live_scheduler.py", "tests/scheduler/test_evictor.py", "tests/scheduler/test_shards.py"),
    *("tests/scheduler/test_restarts.py", "tests/e2e/test_access.py"),
)
_HEADER: Final = (
    "# What each account may do. Made from what the code calls by: python -m tests.install\n"
    "# account, API group, resource, verbs, where, and the one name that is meant\n"
)


def main(arguments: list[str]) -> int:
    if arguments == ["chart"]:
        _write_chart()
        return 0
    table = read_table()
    if arguments != ["--derive"]:
        for key, seen in _record(arguments or list(_TESTS)).items():
            table[key] = table.get(key, frozenset()) | seen
    keys = known_keys()
    table = {key: rights for key, rights in table.items() if key in keys}
    TABLE.write_text(format_table(table))
    RIGHTS.write_text(_HEADER + format_rights(rights_from(table)))
    for key in sorted(keys - set(table)):
        print(f"no test was seen to call: {key}", file=sys.stderr)
    return 1 if keys - set(table) else 0


def _write_chart() -> None:
    shutil.rmtree(CHART, ignore_errors=True)
    for path, text in chart_files().items():
        file = CHART / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for case in CASES:
        snapshot_file(case).write_text(rendered(case))


def _record(tests: list[str]) -> dict[str, frozenset[Right]]:
    """What the call sites asked for while these tests ran."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "calls.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not real", "-p", "tests.install.recording", *tests]
        subprocess.run(command, check=True, env={**os.environ, OUTPUT: str(output)})
        found: dict[str, set[Right]] = {}
        for line in output.read_text().splitlines():
            key, *right = json.loads(line)
            found.setdefault(key, set()).add(Right(*right))
    return {key: frozenset(rights) for key, rights in found.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
