"""Whatever the cluster looks like: every job that waits has a sentence, and its numbers are true."""

from __future__ import annotations

import math

from hypothesis import given, settings

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.answer import MOST_CHARACTERS, Answer
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.cluster import snapshot_of
from tests.scheduler.random_cluster import RandomCluster, clusters


def sentences(cluster: RandomCluster) -> Sentences:
    snapshot = snapshot_of(cluster.objects())
    return Sentences(snapshot, decide(snapshot, Configuration()))


@given(cluster=clusters())
@settings(max_examples=300)
def test_every_job_with_a_reason_has_a_sentence_of_one_line(cluster: RandomCluster) -> None:
    told = sentences(cluster)
    for waiting in told.decisions.waiting:
        answer = told.of(waiting)
        if waiting.reasons and not told.decisions.has_a_place(waiting):
            assert answer is not None
        if answer is not None:
            assert answer.sentence
            assert "\n" not in answer.sentence
            assert len(answer.sentence) <= MOST_CHARACTERS
            assert "nan" not in answer.sentence
            assert " inf" not in answer.sentence


@given(cluster=clusters())
@settings(max_examples=300)
def test_amounts_are_needed_and_what_is_free_is_no_more_than_there_is(cluster: RandomCluster) -> None:
    told = sentences(cluster)
    nodes = told.snapshot.nodes
    most = {"gpu": nodes.allocatable[2].sum(), "cpu": nodes.allocatable[0].sum() / 1000}
    for answer in told.answers().values():
        reason = answer.reason
        amounts = [each for each in (reason.need, reason.have, reason.limit) if each is not None]
        assert all(math.isfinite(each) and each >= 0 for each in amounts), answer
        assert reason.need is None or reason.need > 0, answer
        if reason.tier == "nodes" and reason.resource in most and reason.have is not None:
            assert reason.have <= most[reason.resource] + 1e-6, answer


@given(cluster=clusters())
@settings(max_examples=100)
def test_the_same_objects_give_the_same_sentences(cluster: RandomCluster) -> None:
    def of(objects: RandomCluster) -> dict[ObjectKey, Answer]:
        return sentences(objects).answers()

    assert of(cluster) == of(cluster)


@given(cluster=clusters())
@settings(max_examples=100)
def test_positions_in_a_queue_are_all_different(cluster: RandomCluster) -> None:
    told = sentences(cluster)
    for queue in told.snapshot.queues.queues:
        line = told.line.of(queue.name)
        assert [told.line.ahead_of(job) for job in line] == list(range(len(line)))
        assert all(job.queue == queue.name for job in line)
