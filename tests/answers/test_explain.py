"""`explain`: the verdict, and changes each of which starts the job."""

import pytest

from bosket.api.object import ObjectKey
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import UnknownJob, explain, find_job
from bosket.scheduler.answers.explanation import Explanation
from bosket.scheduler.answers.trial import start_of
from bosket.testing.build import job, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW
from tests.answers.clusters import cluster, explained


def kinds(answer: Explanation) -> list[str]:
    return [change.kind for change in answer.changes]


def assert_changes_start_it(asked: Cluster, answer: Explanation) -> None:
    key = ObjectKey(answer.job.namespace, answer.job.name)
    for change in answer.changes:
        with asked.changed(change.patch) as snapshot:
            start = start_of(asked.decide(snapshot), key)
        assert start is not None, change.sentence
        assert dict(start.nodes) == change.then.nodes


def test_a_pod_larger_than_any_node_can_never_start() -> None:
    asked = cluster(queue("q"), node("n", gpus=4), job("a", gpus=8))
    answer = explained(asked, "a")
    assert answer.verdict == "never"
    assert {"smaller-request", "larger-nodes"} <= set(kinds(answer))
    assert_changes_start_it(asked, answer)
    (smaller,) = [each for each in answer.changes if each.kind == "smaller-request"]
    assert smaller.sentence == "ask for 4 instead of 8 GPUs per pod"
    assert smaller.stepLessFails is True


def test_a_job_whose_place_others_hold_cannot_start_now() -> None:
    asked = cluster(queue("q"), node("n"), job("b", 8, on="n", preemptibility="non-preemptible"), job("a", gpus=4))
    answer = explained(asked, "a")
    assert answer.verdict == "not-now"
    assert answer.sentence.startswith("needs 4 GPUs")
    assert_changes_start_it(asked, answer)
    assert answer.blockers[0].name == "b"
    assert answer.blockers[0].why_not_evicted == "it isn't preemptible"


def test_a_queue_at_its_limit_needs_a_higher_one_and_no_higher() -> None:
    asked = cluster(queue("q", limit=3), node("n"), job("b", 2, on="n"), job("a", 1, gpus=4))
    answer = explained(asked, "a")
    (limit,) = [each for each in answer.changes if each.kind == "queue-limit"]
    assert limit.sentence == "raise queue q's GPUs limit to 6"
    assert limit.stepLessFails is True
    assert limit.commands[0].startswith("kubectl patch queues.scheduling.run.ai q --type=json")
    assert_changes_start_it(asked, answer)


def test_a_job_that_fits_starts_in_the_next_cycle() -> None:
    answer = explained(cluster(queue("q"), node("n"), job("a")), "a")
    assert (answer.verdict, answer.complete) == ("next-cycle", True)


def test_a_job_that_waits_for_pods_to_end_is_told_so() -> None:
    going = [each.running_on("n").being_deleted_at(NOW).build() for each in [pod("b-0").gpu(8).of_group("b")]]
    asked = cluster(queue("q"), node("n"), pod_group("b"), going, job("a", gpus=8))
    assert explained(asked, "a").verdict == "waiting-for-termination"


def test_a_job_that_runs_is_said_to_run() -> None:
    answer = explained(cluster(queue("q"), node("n"), job("a", on="n")), "a")
    assert (answer.verdict, answer.job.state) == ("running", "running")


def test_a_gang_can_start_with_fewer_members() -> None:
    busy = job("b", 6, on="n", preemptibility="non-preemptible")
    asked = cluster(queue("q"), node("n"), busy, job("a", 4))
    answer = explained(asked, "a")
    (fewer,) = [each for each in answer.changes if each.kind == "fewer-members"]
    assert fewer.sentence == "start with 2 of 4 pods (minMember)"
    assert_changes_start_it(asked, answer)


def test_a_higher_priority_is_offered_where_it_helps() -> None:
    running = job("b", gpus=8, on="n", priority="low")
    asked = cluster(
        queue("q"), node("n"), priority_class("low", 10), priority_class("mid", 50), priority_class("high", 75),
        running, job("a", gpus=8, priority="low"),
    )  # fmt: skip
    answer = explained(asked, "a")
    (priority,) = [each for each in answer.changes if each.kind == "priority"]
    assert "from 10 to 50" in priority.sentence
    assert priority.then.evicts == ("default/b-0",)
    assert_changes_start_it(asked, answer)


def test_without_time_there_are_no_changes_and_it_says_so() -> None:
    asked = cluster(queue("q"), node("n", gpus=1), job("a", gpus=2))
    answer = explain(asked, ObjectKey("default", "a"), seconds=0)
    assert (answer.changes, answer.complete) == ((), False)


def test_a_search_that_runs_out_of_time_says_so() -> None:
    ticks = iter(range(10_000))
    asked = cluster(queue("q"), node("n", gpus=1), job("a", gpus=2))
    answer = explain(asked, ObjectKey("default", "a"), seconds=2.5, clock=lambda: float(next(ticks)))
    assert not answer.complete


def test_pods_and_workloads_are_found_by_name() -> None:
    asked = cluster(queue("q"), node("n"), job("a"))
    assert find_job(asked, ObjectKey("default", "a-0")) == ObjectKey("default", "a")
    with pytest.raises(UnknownJob, match="there is default/a"):
        find_job(asked, ObjectKey("elsewhere", "a"))


def test_a_question_leaves_the_cluster_as_it_was() -> None:
    asked = cluster(queue("q", limit=1), node("n"), job("b", 8, on="n"), job("a", gpus=4))
    digest = asked.digest()
    first, second = explained(asked, "a"), explained(asked, "a")
    assert asked.digest() == digest == first.snapshotDigest
    assert first.changes == second.changes
