"""Whatever is wrong with an object, its own job gets a message; all others are scheduled as if it weren't there."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from bosket.api.core import Node, Pod
from bosket.api.kai import PodGroup, PodGroupSpec, Queue, QueueResource, SubGroup
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue, tainted
from bosket.testing.cluster import NOW, placements, reasons
from tests.scheduler.bad_input import Case, cases

CASES = cases()

#: A gang that fits, in a queue that is fine.
FINE = (node("n0"), node("n1"), queue("q"), pod_group("fine", min_member=2), *gang("fine", 2, gpus=3))
#: Where it is placed when nothing else is there.
FINE_PLACES = {"fine-0": "n0", "fine-1": "n0"}


class Outcome:
    """What was decided, and what was said while the objects were read."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.reported: list[str] = []
        state = ClusterState(report=self.reported.append)
        for each in objects:
            state.put(each)
        self.decisions: Decisions = decide(state.snapshot(NOW), Configuration())

    @property
    def others(self) -> dict[str, str]:
        """Where pods go that aren't of the gang that is fine."""
        places = placements(self.decisions)
        assert {name: where for name, where in places.items() if name.startswith("fine-")} == FINE_PLACES
        return {name: where for name, where in places.items() if not name.startswith("fine-")}


def beside_what_is_fine(*objects: KubeObject) -> Outcome:
    return Outcome([*objects, *FINE])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_job_that_suffers_is_told_why(case: Case) -> None:
    outcome = beside_what_is_fine(*case.objects)
    assert outcome.others == {}
    reported = reasons(outcome.decisions)
    assert case.text in reported.pop(case.name)
    assert not reported


def test_all_of_it_at_once() -> None:
    outcome = beside_what_is_fine(*(each for case in CASES for each in case.objects))
    assert outcome.others == {}
    reported = reasons(outcome.decisions)
    assert {case.name: case.text for case in CASES if case.text not in reported[case.name]} == {}


# What can be made sense of


def with_times(obj: Pod | PodGroup | Queue, **times: str) -> KubeObject:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **times))


ONE = gang("odd", 1)[0]
HUGE = QueueResource(quota=1e308, limit=1e308, overQuotaWeight=1e308)

HARMLESS = {
    "absurdly large quotas": [
        *(queue(name, quota=1e308, limit=1e308, weight=1e308, cpu=HUGE, memory=HUGE) for name in ("huge-a", "huge-b")),
        pod_group("odd", queue="huge-a"),
        ONE,
    ],
    "a pod group of a time that is none": [with_times(pod_group("odd"), creationTimestamp="yesterday"), ONE],
    "a queue of a time that is none": [
        with_times(queue("timeless"), creationTimestamp="yesterday"),
        pod_group("odd", queue="timeless"),
        ONE,
    ],
    "a pod of a time that is none": [pod_group("odd"), with_times(ONE, creationTimestamp="soon")],
    "a priority class that is not there": [pod_group("odd", priority="nobody"), ONE],
    "an absurd priority": [
        priority_class("absurd", 10**40),
        pod_group("odd", priority="absurd", preemptibility="preemptible"),
        ONE,
    ],
    "a pod that asks for nothing": [pod_group("odd"), pod("odd-0").of_group("odd").build()],
    "a pod without containers": [
        pod_group("odd"),
        msgspec.structs.replace(ONE, spec=msgspec.structs.replace(ONE.spec, containers=())),
    ],
    "two kinds of minimum": [
        msgspec.structs.replace(pod_group("odd"), spec=PodGroupSpec(queue="q", minMember=1, minSubGroup=1)),
        ONE,
    ],
    "a parent in capitals": [
        pod_group("odd", subgroups=(SubGroup(name="a"), SubGroup(name="b", parent="A", minMember=1))),
        pod("odd-0").gpu(1).of_group("odd", "b").build(),
    ],
    "a task priority that is no number": [
        pod_group("odd"),
        pod("odd-0").gpu(1).of_group("odd").label("kai.scheduler/task-priority", "9" * 5000).build(),
    ],
    "a task priority beyond all numbers with a point": [
        pod_group("odd"),
        pod("odd-0").gpu(1).of_group("odd").label("kai.scheduler/task-priority", "9" * 309).build(),
    ],
    "a portion of a GPU that is hardly one": [
        pod_group("odd"),
        pod("odd-0").shares_gpu("0.000000000001").of_group("odd").build(),
    ],
    "weights that no number holds": [
        *(queue(f"w{n}", weight=w) for n, w in enumerate((5e-324, 1.7e308, 1.7e308))),
        pod_group("odd", queue="w0"),
        ONE,
    ],
}


@pytest.mark.parametrize("objects", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_can_be_made_sense_of_is_scheduled(objects: list[KubeObject]) -> None:
    assert list(beside_what_is_fine(*objects).others) == ["odd-0"]


def test_a_pod_of_an_unknown_subgroup_waits_and_the_others_of_its_job_run() -> None:
    group = pod_group("odd", subgroups=(SubGroup(name="a", minMember=1),))
    members = [pod(f"odd-{name}").gpu(1).of_group("odd", name).build() for name in ("a", "zzz", "")]
    outcome = beside_what_is_fine(group, *members)
    assert list(outcome.others) == ["odd-a"]
    (waiting,) = outcome.decisions.waiting
    assert sorted(task.key.name for task in waiting.job.orphan_tasks) == ["odd-", "odd-zzz"]


def test_a_deletion_time_that_is_none_leaves_the_pod_where_it_is() -> None:
    running = pod("odd-0").gpu(8).of_group("odd").running_on("n1").build()
    outcome = beside_what_is_fine(pod_group("odd"), with_times(running, deletionTimestamp="soon"))
    assert outcome.others == {}
    assert not outcome.decisions.pipelined


# Amounts


@pytest.mark.parametrize("amount", ["-1", "NaN", "9" * 5000, float("nan"), float("inf")])
def test_a_pod_whose_request_is_no_amount_is_left_out_by_name(amount: str | float) -> None:
    member = pod("odd-0").of_group("odd").asks("cpu", amount).build()
    outcome = beside_what_is_fine(pod_group("odd"), member)
    assert outcome.others == {}
    (text,) = outcome.reported
    assert text.startswith("Pod default/odd-0: resources: ")
    assert "is not a quantity" in text or "it must be between 0 and" in text
    assert len(text) < 300


def test_a_gang_that_can_do_without_a_pod_that_can_not_be_counted_runs_without_it() -> None:
    uncountable = pod("odd-1").of_group("odd").asks("cpu", "NaN").build()
    assert list(beside_what_is_fine(pod_group("odd", min_member=1), ONE, uncountable).others) == ["odd-0"]


@pytest.mark.parametrize("amount", ["-4", "1e500", "NaN", float("nan"), "9223372036854775808"])
def test_a_node_whose_amounts_are_none_is_left_out_by_name(amount: str | float) -> None:
    bad = node("a-first")
    status = msgspec.structs.replace(bad.status, allocatable={"nvidia.com/gpu": "8", "pods": "9", "memory": amount})
    outcome = beside_what_is_fine(msgspec.structs.replace(bad, status=status))
    assert outcome.others == {}
    (text,) = outcome.reported
    assert text.startswith("Node a-first: status.allocatable: ")
    assert text.endswith("the node is left out")


def test_a_node_without_allocatable_has_nothing_to_give() -> None:
    assert beside_what_is_fine(Node(metadata=ObjectMeta(name="a-first"))).reported == []
    alone = Outcome([Node(metadata=ObjectMeta(name="empty")), queue("q"), pod_group("odd"), ONE])
    assert "No node in the default node-pool has GPU resources" in reasons(alone.decisions)["odd"]
    assert beside_what_is_fine(Node(metadata=ObjectMeta(name="a-first"))).others == {}


def test_a_taint_that_a_node_has_twice_counts_once() -> None:
    twice = tainted(tainted(node("a-first"), "dedicated", "ml"), "dedicated", "ml")
    assert beside_what_is_fine(twice).others == {}
    tolerant = pod("odd-0").gpu(1).of_group("odd").tolerates("dedicated", "ml").build()
    assert Outcome([twice, queue("q"), pod_group("odd"), tolerant]).decisions.binds
    refused = Outcome([twice, queue("q"), pod_group("odd"), ONE])
    assert "1 node(s) had untolerated taint {dedicated: ml}." in reasons(refused.decisions)["odd"]


# Names, and nothing at all


def test_equal_names_in_two_namespaces_are_two_jobs() -> None:
    other = [pod_group("fine", min_member=2, namespace="other"), *gang("fine", 2, gpus=3, namespace="other")]
    outcome = Outcome([*other, *FINE])
    bound = {str(bind.task.key): bind.node for bind in outcome.decisions.binds}
    assert sorted(bound) == ["default/fine-0", "default/fine-1", "other/fine-0", "other/fine-1"]
    assert {str(bind.job.key) for bind in outcome.decisions.binds} == {"default/fine", "other/fine"}
    assert all(bind.task.key.namespace == bind.job.key.namespace for bind in outcome.decisions.binds)


def test_a_pod_of_a_group_in_another_namespace_is_nobodys() -> None:
    lost = pod("lost", "other").gpu(1).of_group("fine").build()
    assert beside_what_is_fine(lost).others == {}


def test_pods_of_no_group_and_of_unknown_nodes_are_let_be() -> None:
    away = pod("away-0").gpu(8).of_group("away").running_on("nowhere").build()
    outcome = beside_what_is_fine(
        pod("alone").gpu(1).build(), pod("lost").gpu(1).of_group("nobody").build(), pod_group("away"), away
    )
    assert outcome.others == {}


def test_an_empty_cluster_has_nothing_to_decide() -> None:
    decisions = Outcome([]).decisions
    assert (decisions.binds, decisions.pipelined, decisions.evictions, decisions.waiting) == ((), (), (), ())


def test_without_queues_and_without_nodes_everybody_is_told() -> None:
    assert reasons(Outcome([node("n"), pod_group("odd"), ONE]).decisions) == {"odd": "Queue 'q' does not exist"}
    reported = reasons(Outcome([queue("q"), pod_group("odd"), ONE]).decisions)["odd"]
    assert "No node in the default node-pool has GPU resources" in reported
