"""Without the recorded cases, a run of the tests says so, and what lands is not checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, shared: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BOSKET_SHARED": str(shared)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_run_of_the_tests_ends_with_how_many_were_not_run(tmp_path: Path) -> None:
    tests = ("tests/conformance/test_fairshare.py", "tests/conformance/test_ratchet.py")
    done = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests, shared=tmp_path)
    assert done.returncode == 0
    *_, told, _ = done.stdout.splitlines()
    assert told.startswith("3800 recorded cases were NOT RUN, in 4 tests: ")


def test_what_lands_is_not_checked_without_them(tmp_path: Path) -> None:
    done = run(".ci/run", shared=tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path}/conformance is missing: set BOSKET_SHARED" in done.stderr
