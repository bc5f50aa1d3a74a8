"""`explain`: the verdict, and changes each of which starts the job."""

import msgspec
import pytest

from benchmarks.explain_cases import case
from bosket.api.object import ObjectKey, OwnerReference
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.answers.explain import UnknownJob, explain, explain_as_written, find_job
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


def test_without_a_decision_a_job_whose_pods_end_still_runs_and_has_no_verdict() -> None:
    going = pod("going").gpu(2).of_group("old").running_on("n").being_deleted_at(NOW).build()
    answer = explain_as_written(cluster(queue("q"), node("n"), pod_group("old"), going), ObjectKey("default", "old"))
    assert answer.job.state == "running"
    assert (answer.verdict, answer.reason.code, answer.complete) == (None, "", False)


def test_a_question_leaves_the_cluster_as_it_was() -> None:
    asked = cluster(queue("q", limit=1), node("n"), job("b", 8, on="n"), job("a", gpus=4))
    digest = asked.digest()
    first, second = explained(asked, "a"), explained(asked, "a")
    assert asked.digest() == digest == first.snapshotDigest
    assert first.changes == second.changes


def without_costs(answer: Explanation) -> Explanation:
    return msgspec.structs.replace(answer, cpu_ms=0.0, decides=0)


@pytest.mark.parametrize("label", ["cluster-is-full", "min-runtime", "beyond-its-fair-share", "older-is-served-first"])
def test_the_reason_stays_while_nothing_changes(label: str) -> None:
    made = case(label, 7)
    asked = cluster(made.objects)
    first = explain(asked, made.key, seconds=0)
    for cycle in range(1, 100):
        asked.now = NOW + cycle
        later = explain(asked, made.key, seconds=0)
        assert (later.verdict, later.reason, later.sentence) == (first.verdict, first.reason, first.sentence)


def test_the_reason_stays_while_victims_are_ending() -> None:
    """From the eviction until the victims are gone, the job waits for just that."""
    going = [pod(f"b-{number}").gpu(2).of_group("b").running_on("n") for number in range(4)]
    answers = set()
    for left in (4, 3, 2, 1):
        pods = [each.being_deleted_at(NOW).build() for each in going[:left]]
        asked = cluster(queue("q"), node("n"), pod_group("b"), pods, job("a", gpus=8))
        answer = explained(asked, "a")
        answers.add((answer.verdict, answer.reason.code, answer.sentence))
    assert len(answers) == 1


def test_what_the_cycle_decided_need_not_be_decided_again() -> None:
    made = case("older-is-served-first", 3)
    asked = cluster(made.objects)
    decisions = asked.decide()
    told = explain(asked, made.key, seconds=0, decided=decisions)
    found = explain(asked, made.key, seconds=0)
    assert without_costs(told) == without_costs(found)
    assert told.decides < found.decides


@pytest.mark.parametrize(
    ("owner", "expected"),
    [("DaemonSet", "never"), ("Node", "never"), ("ReplicaSet", "not-now")],
)
def test_what_belongs_to_a_node_is_there_on_an_empty_one_too(owner: str, expected: str) -> None:
    """A pod of a DaemonSet holds its CPU on every node for ever."""
    other = pod("other").cpu("2").running_on("n").build()
    reference = OwnerReference(apiVersion="apps/v1", kind=owner, name="o", uid="o", controller=True)
    metadata = msgspec.structs.replace(other.metadata, ownerReferences=(reference,))
    other = msgspec.structs.replace(other, metadata=metadata)
    wide = [pod_group("a"), pod("a-0").cpu("4").of_group("a").build()]
    asked = cluster(queue("q"), node("n", cpu="5"), other, wide)
    assert explained(asked, "a").verdict == expected


def test_an_evicted_job_is_said_to_be_evicted() -> None:
    asked = cluster(queue("q"), node("n"), pod_group("a", min_member=2, evicted=NOW - 60))
    answer = explained(asked, "a")
    assert (answer.job.state, answer.verdict) == ("evicted", "never")


def test_a_job_of_which_all_pods_ended_is_finished() -> None:
    done = [pod("a-0").of_group("a").ended_on("n").build()]
    answer = explained(cluster(queue("q"), node("n"), pod_group("a"), done), "a")
    assert (answer.job.state, answer.verdict, answer.sentence) == ("finished", "running", "has ended: 1 pod")


def test_who_is_ahead_is_named_with_the_reason() -> None:
    asked = cluster(
        queue("q"), node("n"), priority_class("low", 10), priority_class("high", 75),
        job("busy", gpus=8, on="n", preemptibility="non-preemptible"),
        job("older", gpus=8, priority="low", created=NOW - 60 - 3 * 3600),
        job("prior", gpus=8, priority="high", created=NOW - 10),
        job("a", gpus=8, priority="low", created=NOW - 60),
    )  # fmt: skip
    position = explained(asked, "a").position
    assert position is not None
    assert (position.in_queue, position.of) == (3, 3)
    assert [(each.name, each.why) for each in position.ahead] == [
        ("prior", "priority 75, this one has 10"),
        ("older", "was submitted 3 h earlier"),
    ]


def test_two_things_that_keep_a_job_from_ever_starting_are_changed_together() -> None:
    wanted = pod("a-0").gpu(8).only_on("pool", "fast").of_group("a").build()
    asked = cluster(queue("q"), node("n", gpus=4, pool="slow"), node("m", gpus=4, pool="slow"), pod_group("a"), wanted)
    answer = explained(asked, "a")
    assert answer.verdict == "never"
    (change,) = answer.changes
    assert change.kind == "smaller-request+node-selector"
    assert change.sentence == "ask for 4 instead of 8 GPUs per pod, and drop the node selector pool=fast"
    assert_changes_start_it(asked, answer)
