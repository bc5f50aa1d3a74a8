from __future__ import annotations

import pytest

from tests.conformance.cases import conformance_folder
from tests.conformance.podgrouper import run, summary

#: What KAI decided in cases that we know how to run; a number that falls means that cases got lost.
AT_LEAST = {
    "CronJob": 44,
    "Deployment": 40,
    "Job": 46,
    "OwnerWalk": 13,
    "Pod": 55,
    "ReplicaSet": 29,
    "StatefulSet": 34,
    "UnknownKind": 32,
}


async def test_groups_are_those_that_kai_makes() -> None:
    folder = conformance_folder("podgrouper")
    if folder is None:
        pytest.skip("no recorded cases: set BOSKET_SHARED to a folder that has conformance/podgrouper")
    outcomes = await run(folder)
    failed = [f"{each.case}: {'; '.join(each.differences)}" for each in outcomes if each.verdict == "failed"]
    assert failed == []
    passed = {kind: verdicts["passed"] for kind, verdicts in summary(outcomes).items()}
    assert {kind: passed[kind] for kind in AT_LEAST if passed[kind] < AT_LEAST[kind]} == {}
