"""Jobs that wait for a reason that they were built with: verdict, reason and changes are right for every kind."""

import json

import msgspec
import pytest

from benchmarks.explain import judged
from benchmarks.explain_cases import BUILDERS, case
from benchmarks.explain_verifier import starts
from bosket.testing.build import job, node, queue
from tests.answers.clusters import cluster, explained, recorded


@pytest.mark.parametrize("label", BUILDERS)
def test_a_job_is_explained_by_what_it_was_built_with(label: str) -> None:
    for seed in (100, 101):
        row = judged(case(label, seed))
        assert row["verdict"], row
        assert row["reason"], row
        assert row["offered"] or row["expected"] == "waiting-for-termination", row
        assert row["replayed"] == row["changes"], row


def test_a_replay_notices_a_change_that_does_not_help() -> None:
    objects = [queue("q", limit=1), node("n"), *job("a", gpus=4)]
    file = case("over-limit", 1).recording()
    answer = explained(cluster(objects), "a")
    patch = json.loads(msgspec.json.encode(answer.changes[-1].patch))
    assert not starts(file, [], "ml", "asked")
    assert recorded(objects).objects
    assert patch
