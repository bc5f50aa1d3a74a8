"""Offered changes, whatever the cluster: each starts the job when it is replayed, and one step less doesn't."""

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.explain_cases import case
from benchmarks.explain_verifier import starts
from bosket.scheduler.answers.candidates import candidates
from bosket.scheduler.answers.change import ObjectPatch
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import explain
from bosket.scheduler.answers.trial import Trial
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.options import StateOptions
from bosket.testing.cluster import NOW, state_of
from tests.scheduler.random_cluster import RandomCluster, clusters


def plain(patches: tuple[ObjectPatch, ...]) -> object:
    return json.loads(msgspec.json.encode(patches))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_every_change_starts_its_job_in_any_cluster(made: RandomCluster) -> None:
    file = zipped(take(state_of(made.objects()), StateOptions(), Configuration(), NOW))
    asked = Cluster(read(file))
    digest = asked.digest()
    for waiting in asked.decide().waiting[:2]:
        key = waiting.job.key
        for change in explain(asked, key, seconds=2).changes:
            assert starts(file, plain(change.patch), *key), change.sentence
    assert asked.digest() == digest


@pytest.mark.parametrize(
    "label",
    ["over-limit", "over-quota", "larger-than-any-node", "larger-than-the-cluster", "fragmented", "racks-are-full"],
)
def test_one_step_less_does_not_start_it(label: str) -> None:
    made = case(label, 11)
    file = made.recording()
    asked = Cluster(read(file))
    numbers = {each.sentence: each for each in explain(asked, made.key).changes if each.stepLessFails is not None}
    assert numbers
    for candidate in candidates(Trial(asked, made.key)):
        for size in range(1, candidate.most + 1) if candidate.is_number else ():
            if numbers.pop(candidate.sentence(size), None) is not None:
                assert not starts(file, plain(candidate.patch(size - 1)), *made.key), candidate.sentence(size)
    assert not numbers
