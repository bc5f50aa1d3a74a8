"""The one sentence about a waiting job, and the structured reason beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from bosket.api.core import EnvFromSource, Node
from bosket.api.core.container import ConfigMapEnvSource
from bosket.api.kai import SubGroup
from bosket.api.keys import QUEUE_LABEL
from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.answers.answer import Answer
from bosket.scheduler.answers.sentence import Sentences
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.build import gang, job, node, pod, pod_group, priority_class, queue, tainted, topology, within
from bosket.testing.cluster import NOW, snapshot_of, state_of
from bosket.testing.device import device, device_class, device_slice, named_claims, resource_claim


def answers(*objects: KubeObject | Iterable[KubeObject], now: float = NOW) -> dict[str, Answer]:
    """By name of the pod group."""
    snapshot = snapshot_of(*objects, now=now)
    told = Sentences(snapshot, decide(snapshot, Configuration()))
    return {key.name: answer for key in snapshot.jobs if (answer := told.about(key)) is not None}


def running(name: str, on: str, gpus: int, **group: Any) -> list[KubeObject]:
    return job(name, gpus=gpus, on=on, **group)


def nodes(count: int, gpus: int = 8) -> list[Node]:
    return [node(f"n{number}", gpus=gpus) for number in range(count)]


def busy(count: int, gpus: int, **group: object) -> list[KubeObject]:
    """A job on each of so many nodes."""
    return [each for number in range(count) for each in running(f"busy-{number}", f"n{number}", gpus, **group)]


def test_a_gang_that_finds_the_cluster_full_is_told_what_is_free_and_what_its_queue_holds() -> None:
    told = answers(
        nodes(12),
        [queue("a", quota=43), queue("b", quota=43)],
        busy(5, 8, queue="a"),
        [each for number in range(5, 10) for each in running(f"busy-{number}", f"n{number}", 8, queue="b")],
        running("x", "n10", 5, queue="a"),
        running("y", "n11", 5, queue="b"),
        job("ahead", gpus=8, queue="a"),
        job("late", 4, gpus=8, queue="a"),
    )["late"]
    assert told.sentence == (
        "needs 32 GPUs on 4 nodes; 6 are free, the largest block is 3; a holds 45 of its fair share of 51; 1 job ahead"
    )
    assert (told.reason.code, told.reason.tier, told.reason.scope) == ("OverFairShare", "fairness", "a")
    assert (told.reason.resource, told.reason.need, told.reason.have, told.reason.limit) == ("gpu", 32, 45, 51)


def test_of_free_gpus_in_small_blocks_the_largest_block_is_told() -> None:
    told = answers(nodes(3), queue("q"), busy(3, 4, preemptibility="non-preemptible"), job("w", gpus=8))["w"]
    assert told.sentence.startswith("needs 8 GPUs on one node; 12 are free, the largest block is 4; ")
    assert (told.reason.tier, told.reason.have, told.reason.limit) == ("nodes", 12, 4)


def test_a_pod_larger_than_any_node_is_told_the_largest() -> None:
    told = answers(nodes(3), queue("q"), job("w", gpus=16))["w"]
    assert told.sentence == "needs 16 GPUs on one node; the largest has 8"
    assert (told.reason.tier, told.reason.scope, told.reason.limit) == ("nodes", "node", 8)


def test_a_gang_larger_than_the_cluster_is_told_what_there_is() -> None:
    told = answers(nodes(3), queue("q"), job("w", 4, gpus=8))["w"]
    assert told.sentence == "needs 32 GPUs on 4 nodes; 3 nodes have 24 in all"
    assert told.reason.limit == 24


def test_memory_and_cpu_are_told_in_their_units() -> None:
    pods = [pod("w").cpu("60").of_group("w").build(), pod("m").memory("300Gi").of_group("m").build()]
    held = pod("r").cpu("8").memory("256Gi").of_group("r").running_on("n0").build()
    told = answers(nodes(1), queue("q"), pod_group("w"), pod_group("m"), pod_group("r"), pods, held)
    assert told["w"].sentence.startswith("needs 60 CPU cores on one node; 56 are free; ")
    assert told["m"].sentence.startswith("needs 300 GiB of memory on one node; 256 GiB are free; ")
    assert told["m"].reason.need == 300


def test_nodes_that_may_not_take_the_pod_say_why() -> None:
    some = [*(tainted(each, "dedicated", "infra") for each in nodes(2)), node("n2")]
    wanted = pod("w").gpu(1).only_on("pool", "a").of_group("w").build()
    told = answers(some, queue("q"), pod_group("w"), wanted)["w"]
    assert told.sentence == (
        "needs 1 GPU; none of 3 nodes takes it: 2 had untolerated taint {dedicated: infra}, "
        "1 didn't match Pod's node affinity/selector"
    )
    assert sum(told.reason.objections.values()) == 3


def test_nodes_that_are_out_are_counted_beside_those_that_are_full() -> None:
    some = [*(tainted(each, "dedicated", "infra") for each in nodes(2)), node("n2")]
    told = answers(some, queue("q"), running("r", "n2", 4), job("w", gpus=8))["w"]
    assert "needs 8 GPUs on one node; 4 are free; 2 nodes had untolerated taint {dedicated: infra}; " in told.sentence


def test_a_limit_is_told_with_what_the_queue_holds() -> None:
    told = answers(nodes(2), queue("q", limit=8), running("r", "n0", 4), job("w", gpus=8))["w"]
    assert told.sentence == "needs 8 GPUs; q is limited to 8 and holds 4; no job ahead"
    assert (told.reason.code, told.reason.tier, told.reason.limit) == ("OverLimit", "queue", 8)


def test_nodes_come_before_limits_for_a_job_that_no_node_could_hold() -> None:
    told = answers(nodes(2), queue("q", limit=12), running("r", "n0", 4), job("w", gpus=12))["w"]
    assert told.sentence == "needs 12 GPUs on one node; the largest has 8"
    assert told.reason.tier == "nodes"


def test_a_gang_over_its_limit_is_told_as_well_that_the_cluster_is_too_small() -> None:
    told = answers(nodes(2), queue("q", limit=12), job("w", 3, gpus=8))["w"]
    assert (
        told.sentence
        == "needs 24 GPUs on 3 nodes; q is limited to 12 and holds 0; 2 nodes have 16 in all; no job ahead"
    )
    assert told.reason.tier == "queue"


def test_a_limit_is_not_told_alone_where_no_node_takes_the_job_either() -> None:
    told = answers([tainted(each, "dedicated") for each in nodes(2)], queue("q", limit=1), job("w", gpus=2))["w"]
    assert told.sentence == "needs 2 GPUs on one node; none of 2 nodes takes it: 2 had untolerated taint {dedicated}"


def test_gpus_that_resource_claims_ask_for_are_told_too() -> None:
    names = ["c0", "c1", "c2"]
    claims = [resource_claim(each, labels={QUEUE_LABEL: "q"}) for each in names]
    wanted = [pod(f"w-{each}").of_group("w").with_spec(resourceClaims=named_claims(each)) for each in names]
    devices = [device_class(), device_slice("n0", device("d0"), device("d1")), *claims]
    group = pod_group("w", min_member=3)
    told = answers(nodes(1, gpus=0), queue("q"), devices, group, [each.build() for each in wanted])["w"]
    assert told.sentence == (
        "needs 3 GPUs in 3 pods; the only node doesn't take it: 1 can't allocate all resource claims"
    )


def test_a_quota_binds_jobs_that_are_not_preemptible() -> None:
    told = answers(nodes(2), queue("q", quota=4), job("w", gpus=8, preemptibility="non-preemptible"))["w"]
    assert told.sentence == (
        "needs 8 GPUs and isn't preemptible; q has a quota of 4, of which jobs that aren't preemptible hold 0; "
        "no job ahead"
    )
    assert (told.reason.code, told.reason.tier) == ("NonPreemptibleOverQuota", "queue")


def test_a_queue_that_does_not_exist_is_named() -> None:
    told = answers(nodes(1), job("w", queue="nowhere"))["w"]
    assert told.sentence == "Queue 'nowhere' does not exist"
    assert (told.reason.code, told.reason.tier) == ("QueueDoesNotExist", "queue")


def test_missing_pods_and_closed_gates_are_told_apart() -> None:
    closed = [pod(f"g-{number}").of_group("g").gated_by("wait").build() for number in range(2)]
    told = answers(
        nodes(1), queue("q"), pod_group("w", min_member=4), gang("w", 3), pod_group("g", min_member=2), closed
    )
    assert told["w"].sentence == "waits for pods that don't exist yet: 4 are needed, 3 exist"
    assert told["g"].sentence == "waits for scheduling gates to be lifted: 2 of 2 pods are gated, 2 must be free"
    assert (told["w"].reason.resource, told["g"].reason.resource) == ("pods", "gates")


def test_what_is_free_may_go_to_a_job_whose_turn_is_earlier() -> None:
    told = answers(
        nodes(1), queue("q"), priority_class("high", 90), job("w", gpus=8), job("first", gpus=8, priority="high")
    )["w"]
    assert told.sentence.startswith(
        "needs 8 GPUs on one node; what is free goes to default/first, whose turn is earlier"
    )
    assert (told.reason.code, told.reason.tier) == ("LowerInOrder", "order")


def test_a_gang_for_one_rack_is_told_the_best_rack() -> None:
    some = [node(f"n{number}", gpus=2, rack=f"r{number // 2}") for number in range(4)]
    group = pod_group("w", min_member=5, topology=within("t", "rack"))
    told = answers(some, queue("q"), topology("t", "rack"), group, gang("w", 5))["w"]
    assert told.sentence == (
        "needs 5 GPUs in 5 pods in one rack; the best of 2, r0, has 4 of 4 free and takes 4 of 5 pods; no job ahead"
    )
    assert (told.reason.tier, told.reason.scope, told.reason.limit) == ("topology", "rack", 4)


def test_a_job_that_waits_for_victims_to_end_is_told_where_it_starts() -> None:
    leaving = pod("old").gpu(2).running_on("n1").being_deleted_at(NOW).build()
    told = answers(node("n1", gpus=4), queue("q"), job("w", 4), leaving)["w"]
    assert told.sentence == "4 pods are to start on n1, as soon as what ends there is gone"
    assert told.reason.code == "WaitingForTermination"


def test_a_preemption_delay_is_told_with_its_end() -> None:
    told = answers(
        nodes(1), [queue("a"), queue("b")], busy(1, 8, queue="b"),
        job("w", gpus=4, queue="a", preemption_delay="5m", created=NOW - 60),
    )["w"]  # fmt: skip
    assert "no pod is evicted for it before 2025-06-15T15:10:40Z (its preemption delay is 5m); " in told.sentence
    assert (told.reason.code, told.reason.tier) == ("PreemptionDelayNotElapsed", "fairness")


def test_extras_of_an_elastic_job_are_told_what_one_more_pod_needs() -> None:
    told = answers(node("n1", gpus=3), queue("q"), pod_group("w", min_member=2), gang("w", 5))["w"]
    assert told.sentence.startswith("needs 1 GPU; none is free; ")


def test_a_pod_that_shares_a_gpu_is_told_the_most_that_is_free_of_one() -> None:
    on = pod("r").shares_gpu(0.7).of_group("r").in_gpu_groups("a").running_on("n1").build()
    other = pod("s").shares_gpu(0.6).of_group("s").in_gpu_groups("b").running_on("n1").build()
    wanted = pod("w").shares_gpu(0.5).of_group("w").build()
    groups = [pod_group(name, preemptibility="non-preemptible") for name in ("r", "s")]
    told = answers(node("n1", gpus=2), queue("q"), groups, pod_group("w"), on, other, wanted)["w"]
    assert told.sentence.startswith("needs 0.5 GPUs on one node; 0.7 are free, the largest block is 0.4; ")


def test_memory_of_a_gpu_is_told_in_mebibytes() -> None:
    some = node("n1", gpus=1, gpu_memory=40_000)
    held = pod("r").gpu_memory(30_000).of_group("r").in_gpu_groups("a").running_on("n1").build()
    pods = [pod("w").gpu_memory(20_000).of_group("w").build(), pod("x").gpu_memory(50_000).of_group("x").build()]
    told = answers(some, queue("q"), pod_group("r"), pod_group("w"), pod_group("x"), held, pods)
    assert told["w"].sentence.startswith("needs 20000 MiB of GPU memory (0.5 GPUs) on one node; 0.25 are free; ")
    assert told["x"].sentence == "needs 50000 MiB of a GPU's memory; the largest GPU has 40000 MiB"
    assert told["x"].reason.resource == "gpu-memory"


def test_pods_that_ask_for_nothing_are_told_what_nodes_say() -> None:
    full = [node("n1", pods=2), *job("r", gpus=0, on="n1")]
    told = answers(full, queue("q"), tainted(node("n2"), "dedicated"), job("w", 2, gpus=0))["w"]
    assert told.sentence == ("needs room for 2 pods; 1 is free; 1 node had untolerated taint {dedicated}; no job ahead")
    alone = answers(tainted(node("n1"), "dedicated"), queue("q"), job("w", gpus=0))["w"]
    assert alone.sentence == "the only node doesn't take it: 1 had untolerated taint {dedicated}"


def test_an_object_that_is_missing_is_named() -> None:
    settings = EnvFromSource(configMapRef=ConfigMapEnvSource(name="settings"))
    wanted = pod("w").gpu(1).of_group("w").with_container(envFrom=(settings,)).build()
    told = answers(nodes(1), queue("q"), pod_group("w"), wanted)["w"]
    assert told.sentence == "Missing required configmaps: [settings]"
    assert told.reason.tier == "spec"


def test_sub_groups_are_counted_together() -> None:
    group = pod_group("w", subgroups=tuple(SubGroup(name=name, minMember=2) for name in ("x", "y")))
    members = [*gang("w", 2, gpus=8, subgroup="x"), *gang("w", 2, gpus=8, subgroup="y")]
    told = answers(nodes(4), queue("q"), busy(1, 8), group, members)["w"]
    assert told.sentence.startswith("needs 32 GPUs on 4 nodes; 24 are free, the largest block is 8; ")


def test_jobs_ahead_are_those_of_the_queue_with_an_earlier_turn() -> None:
    told = answers(
        nodes(1),
        [queue("a"), queue("b"), priority_class("high", 90)],
        busy(1, 8, queue="b"),
        [each for number in range(3) for each in job(f"w-{number}", gpus=8, queue="a", created=NOW - 100 + number)],
        job("first", gpus=8, queue="a", priority="high", preemption_delay="1h"),
        job("other", gpus=8, queue="b"),
    )
    assert told["w-1"].sentence.endswith("2 jobs ahead")
    assert told["other"].sentence.endswith("no job ahead")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\t"])
def test_a_sentence_is_one_line(line_end: str) -> None:
    told = answers(nodes(1), job("w", queue=f"a{line_end}b"))["w"]
    assert told.sentence == "Queue 'a b' does not exist"


def test_a_sentence_stays_for_a_hundred_cycles_in_which_nothing_changes() -> None:
    objects = [*nodes(2), queue("a"), queue("b"), *busy(2, 8, queue="b"), *job("w", 4, gpus=8, queue="a")]
    objects += job("d", gpus=4, queue="b", preemption_delay="1h", created=NOW)
    state = state_of(objects)
    seen = set()
    for cycle in range(100):
        snapshot = state.snapshot(NOW + cycle)
        told = Sentences(snapshot, decide(snapshot, Configuration()))
        seen.add(str([told.about(ObjectKey("default", name)) for name in ("w", "d")]))
    assert len(seen) == 1


def test_a_sentence_stays_while_victims_are_ending() -> None:
    leaving = [pod(f"old-{number}").gpu(2).running_on("n1").being_deleted_at(NOW).build() for number in range(2)]
    objects = [node("n1", gpus=4), queue("q"), *job("first", 4), *job("w", gpus=4)]
    seen = set()
    for left in (leaving, leaving[:1]):
        snapshot = state_of([*objects, *left]).snapshot(NOW)
        told = Sentences(snapshot, decide(snapshot, Configuration()))
        seen.add(str([told.about(ObjectKey("default", name)) for name in ("first", "w")]))
    assert len(seen) == 1
