"""Recorded decisions that we make alike stay alike, and the list of those that we don't only gets shorter.

After a change that makes cases pass, `python -m tests.conformance --allowed tests/conformance/allowed_failures.txt`
names the lines to take out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.corpus import ids, verdicts
from tests.conformance.ratchet import ALLOWED_FAILURES, compare, read_allowed


def _chunks() -> list[Path]:
    """Folders and files that are run apart from each other, for several processes to share."""
    kai, differential, grouping, grove = (
        conformance_folder(name) for name in ("kai", "differential", "podgrouper", "grove")
    )
    chunks: list[Path] = []
    if kai:
        chunks += sorted(folder for folder in (kai / "cases").iterdir() if folder.is_dir())
    if differential:
        chunks += [*sorted((differential / "cases").glob("*.jsonl")), differential / "fairshare.jsonl"]
    if grouping:
        chunks.append(grouping)
    if grove:
        chunks.append(grove / "cases")
    return chunks


CHUNKS = _chunks()

FOLDERS = ("conformance/kai", "conformance/differential", "conformance/podgrouper", "conformance/grove")
#: What a run without them is said to leave out.
CASES = 3520


@pytest.mark.shared(*FOLDERS, cases=CASES)
@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda path: "/".join(path.parts[-3:]))
def test_only_what_is_known_to_fail_fails_and_all_of_it_does(chunk: Path) -> None:
    results = list(verdicts([chunk]))
    assert results
    comparison = compare(results, read_allowed(ALLOWED_FAILURES))
    fails = [f"{verdict.case}: {verdict.differences[0]}" for verdict in comparison.unexpected]
    assert fails == [], f"these fail, and are not in {ALLOWED_FAILURES.name}"
    assert list(comparison.outdated) == [], f"these pass now: take them out of {ALLOWED_FAILURES.name}"


@pytest.mark.shared(*FOLDERS)
def test_there_are_as_many_cases_as_a_run_without_them_is_said_to_leave_out() -> None:
    assert len(ids(CHUNKS)) >= CASES


@pytest.mark.shared(*FOLDERS)
def test_every_case_that_is_allowed_to_fail_exists() -> None:
    assert sorted(read_allowed(ALLOWED_FAILURES) - ids(CHUNKS)) == []


def test_allowed_failures_are_sorted_and_named_once() -> None:
    lines = ALLOWED_FAILURES.read_text().splitlines()
    assert lines == sorted(set(lines))
