"""Limits and quotas at every level of the queue tree, whose turn it is, and queues that can't be used."""

from collections.abc import Mapping

import msgspec

from bosket.api.kai import Queue, QueueResource
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import parse_configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import gang, node, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, decided, placements, reasons


def test_a_queue_never_gets_more_than_its_limit() -> None:
    decisions = decided(node("n1"), queue("q", limit=3), pod_group("g", min_member=4), gang("g", 4))
    assert placements(decisions) == {}
    assert reasons(decisions)["g"] == (
        "q quota has reached the allowable limit of GPUs. Limit is 3 GPUs, currently 0 GPUs allocated "
        "and workload requested 4 GPUs"
    )


def test_a_queue_without_a_limit_has_none_and_one_of_0_lets_nothing_run() -> None:
    """As in KAI's documentation of shards: a quota of GPUs, and not a word of CPU and memory."""

    def written(name: str, spec: Mapping[str, dict[str, dict[str, int]] | int | str]) -> Queue:
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)

    top = written("top", {"priority": 100, "resources": {"gpu": {"quota": -1}}})
    leaf = written("q", {"parentQueue": "top", "priority": 100, "resources": {"gpu": {"quota": 10}}})
    assert len(placements(decided(node("n1"), top, leaf, pod_group("g", min_member=4), gang("g", 4)))) == 4
    bare = written("q", {"preemptMinRuntime": "20s"})
    assert len(placements(decided(node("n1"), bare, pod_group("g", min_member=4), gang("g", 4)))) == 4
    closed = written("q", {"resources": {"gpu": {"quota": 10, "limit": 0}}})
    decisions = decided(node("n1"), closed, pod_group("g"), gang("g", 1))
    assert placements(decisions) == {}
    assert "Limit is 0 GPUs" in reasons(decisions)["g"]


def test_a_recording_of_kais_is_decided_as_kai_did_with_a_limit_of_0() -> None:
    objects = {
        "nodes": [node("n1")],
        "queues": [{"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 10}}}}],
        "podGroups": [pod_group("g")],
        "pods": gang("g", 1),
    }
    for own, limit in ({}, 0), ({"version": "1"}, -1):
        tree = read(msgspec.json.encode({"rawObjects": objects, "bosket": own})).snapshot(NOW).queues
        assert tree.queues[0].limit == (limit, limit, limit)


def test_limits_of_0_and_minus_1_are_written_out() -> None:
    """Whoever reads what is left out as 0 must not take one for the other."""
    for limit in (0, -1):
        assert f'"limit":{limit}'.encode() in msgspec.json.encode(queue("q", limit=limit))
    assert b'"limit"' not in msgspec.json.encode(QueueResource(quota=1))


def test_the_limit_of_an_ancestor_binds_too_and_counts_what_runs() -> None:
    running = pod("r-0").gpu(2).of_group("r").running_on("n1").build()
    decisions = decided(
        node("n1"),
        queue("top", limit=3),
        [queue("a", parent="top"), queue("b", parent="top")],
        [pod_group("r", queue="a"), pod_group("g", queue="b", min_member=2)],
        running,
        gang("g", 2),
    )
    assert placements(decisions) == {}
    assert "currently 2 GPUs allocated" in reasons(decisions)["g"]


def test_non_preemptible_work_stays_inside_the_quota() -> None:
    decisions = decided(
        node("n1"),
        queue("q", quota=2),
        priority_class("build", 100),
        pod_group("g", min_member=3, priority="build"),
        gang("g", 3),
    )
    assert placements(decisions) == {}
    assert reasons(decisions)["g"].startswith("Non-preemptible workload is over quota. Workload requested 3 GPUs")


def test_preemptible_work_may_go_over_the_quota() -> None:
    decisions = decided(node("n1"), queue("q", quota=2), pod_group("g", min_member=3), gang("g", 3))
    assert len(placements(decisions)) == 3


def test_queues_take_turns_by_what_they_hold_of_their_quota() -> None:
    groups = [pod_group(f"{q}{i}", queue=q) for q in "ab" for i in range(4)]
    members = [gang(f"{q}{i}", 1) for q in "ab" for i in range(4)]
    decisions = decided(node("n1", gpus=4), [queue("a", quota=2), queue("b", quota=2)], groups, *members)
    assert sorted(placements(decisions)) == ["a0-0", "a1-0", "b0-0", "b1-0"]


def test_a_queue_of_higher_priority_is_served_first() -> None:
    decisions = decided(
        node("n1", gpus=1),
        [queue("a"), queue("b", priority=200)],
        [pod_group("ga", queue="a"), pod_group("gb", queue="b")],
        gang("ga", 1),
        gang("gb", 1),
    )
    assert set(placements(decisions)) == {"gb-0"}


def test_a_job_of_higher_priority_is_served_first() -> None:
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        [priority_class("low", 10), priority_class("high", 60)],
        [pod_group("old", priority="low"), pod_group("new", priority="high")],
        gang("old", 1),
        gang("new", 1),
    )
    assert set(placements(decisions)) == {"new-0"}


def test_of_equally_old_jobs_the_one_with_the_smaller_name_goes_first_whatever_its_namespace() -> None:
    later = pod_group("a", namespace="z")
    earlier = pod_group("b", namespace="a")
    same_age = msgspec.structs.replace(earlier.metadata, creationTimestamp=later.metadata.creationTimestamp)
    decisions = decided(
        node("n1", gpus=1),
        queue("q"),
        [later, msgspec.structs.replace(earlier, metadata=same_age)],
        gang("a", 1, namespace="z"),
        gang("b", 1, namespace="a"),
    )
    assert placements(decisions) == {"a-0": "n1"}


def test_bad_queues_stop_their_own_jobs_only() -> None:
    decisions = decided(
        node("n1"),
        [
            queue("q"),
            queue("a", parent="b"),
            queue("b", parent="a"),
            queue("lost", parent="gone"),
            queue("bad", quota=-5),
        ],
        [pod_group(name, queue=name) for name in ("q", "a", "lost", "bad", "nowhere")],
        [pod_group("nameless", queue="")],
        *[gang(name, 1) for name in ("q", "a", "lost", "bad", "nowhere", "nameless")],
    )
    assert set(placements(decisions)) == {"q-0"}
    reported = reasons(decisions)
    assert "form a circle (a → b → a)" in reported["a"]
    assert reported["lost"] == "Queue 'lost' can't be used: its parent queue 'gone' does not exist"
    assert reported["bad"] == "Queue bad: spec.resources.gpu.quota is -5, it must be 0 or more, or -1 for unlimited"
    assert reported["nowhere"] == "Queue 'nowhere' does not exist"
    assert reported["nameless"] == "The pod group names no queue (spec.queue is empty)"


def test_a_queue_with_children_holds_no_jobs() -> None:
    decisions = decided(node("n1"), [queue("q"), queue("child", parent="q")], pod_group("g", queue="q"), gang("g", 1))
    assert placements(decisions) == {}
    assert "only a leaf queue can hold jobs" in reasons(decisions)["g"]


def test_without_hierarchy_queues_share_the_cluster_as_siblings() -> None:
    state = ClusterState(StateOptions(full_hierarchy_fairness=False))
    for each in [queue("top", limit=0), queue("q", parent="top"), node("n1"), pod_group("g"), *gang("g", 1)]:
        state.put(each)
    decisions = decide(state.snapshot(NOW), Configuration())
    assert placements(decisions) == {"g-0": "n1"}
    assert set(decisions.fair_share) == {"default", "q"}


def test_a_queue_is_judged_by_the_next_job_of_the_child_that_was_served_last() -> None:
    """With `b2` in line, `left` would leave its quota, so `right` goes first, although `a2` would still fit."""
    sizes = {"a1": 1, "a2": 1, "b1": 1, "b2": 2, "c1": 1}
    decisions = decided(
        node("n1", gpus=20),
        [queue("left", quota=3, limit=3), queue("a", parent="left", quota=2), queue("b", parent="left", quota=1)],
        [queue("right", quota=2), queue("c", parent="right", quota=2)],
        pod_group("c0", queue="c"),
        pod("c0-0").gpu(3).of_group("c0").running_on("n1").build(),
        [pod_group(name, queue=name[0]) for name in sizes],
        *(gang(name, 1, gpus=gpus) for name, gpus in sizes.items()),
    )
    assert list(placements(decisions)) == ["a1-0", "b1-0", "c1-0", "a2-0"]


def test_only_so_many_jobs_of_a_queue_are_tried_as_the_configuration_says() -> None:
    groups = [pod_group(f"{q}{i}", queue=q) for q in "ab" for i in range(3)]
    decisions = decided(
        node("n1"),
        [queue("a"), queue("b")],
        reversed(groups),
        *(gang(group.metadata.name, 1) for group in groups),
        configuration=parse_configuration("queueDepthPerAction: {allocate: 2}", known_actions=ACTIONS),
    )
    assert sorted(placements(decisions)) == ["a0-0", "a1-0", "b0-0", "b1-0"]
    assert reasons(decisions)["b2"] == (
        "Only the first 2 jobs of queue 'b' are tried in a cycle, and this isn't one of them"
    )
