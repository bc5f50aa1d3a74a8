"""Pods that ask for a part of a GPU, or for some of its memory."""

from __future__ import annotations

import pytest

from bosket.api.core import Pod
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.resource import GPU
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, placements, reasons, snapshot_of


def member(name: str) -> PodBuilder:
    return pod(name).of_group(name)


def jobs(*pods: PodBuilder) -> list[KubeObject]:
    """A job for each pod."""
    return [each for one in pods for each in (pod_group(one.annotations["pod-group-name"]), one.build())]


def groups(decisions: Decisions) -> dict[str, tuple[str, ...]]:
    """By pod: the shared GPUs that it is bound to."""
    return {bind.task.key.name: bind.gpu_groups for bind in decisions.binds}


def spreading() -> Configuration:
    plugins = [each for each in Configuration().plugins if each.name != "gpupack"]
    return Configuration(plugins=(*plugins, PluginChoice("gpuspread")))


def test_four_quarters_share_one_gpu() -> None:
    snapshot = snapshot_of(
        node("n", gpus=2), queue("q"), jobs(*(member(f"p{number}").shares_gpu(0.25) for number in range(5)))
    )
    found = groups(decide(snapshot, Configuration()))
    assert {found[f"p{number}"] for number in range(4)} == {found["p0"]}
    assert found["p4"] != found["p0"]


def test_spreading_opens_a_gpu_for_each_while_there_are_some() -> None:
    snapshot = snapshot_of(
        node("n", gpus=2), queue("q"), jobs(*(member(f"p{number}").shares_gpu(0.25) for number in range(3)))
    )
    found = groups(decide(snapshot, spreading()))
    assert found["p0"] != found["p1"]
    assert found["p2"] in (found["p0"], found["p1"])


def test_a_pod_joins_the_gpu_that_is_shared_already() -> None:
    snapshot = snapshot_of(
        node("a", gpus=4),
        node("b", gpus=4),
        queue("q"),
        jobs(member("old").shares_gpu(0.5).running_on("b").in_gpu_groups("g"), member("new").shares_gpu(0.5)),
    )
    decisions = decide(snapshot, Configuration())
    assert placements(decisions) == {"new": "b"}
    assert groups(decisions) == {"new": ("g",)}


def test_several_devices_are_different_ones() -> None:
    snapshot = snapshot_of(
        node("n", gpus=3),
        queue("q"),
        jobs(
            member("old").shares_gpu(0.5).running_on("n").in_gpu_groups("g"),
            member("new").shares_gpu(0.5, devices=3),
        ),
    )
    (found,) = groups(decide(snapshot, Configuration())).values()
    assert len(set(found)) == 3
    assert "g" in found


def test_a_shared_gpu_is_not_free_for_whole_ones() -> None:
    snapshot = snapshot_of(
        node("n", gpus=1),
        queue("q"),
        jobs(member("old").shares_gpu(0.1).running_on("n").in_gpu_groups("g"), member("whole").gpu(1)),
    )
    decisions = decide(snapshot, Configuration(actions=("allocate",)))
    assert "1 node(s) didn't have enough resources: GPUs" in reasons(decisions)["whole"]
    assert snapshot.nodes.idle[GPU].tolist() == [0.0]


def test_a_gpu_that_all_its_pods_are_leaving_is_promised_to_others() -> None:
    leaving = member("old").shares_gpu(0.5).running_on("n").in_gpu_groups("g").being_deleted_at(NOW)
    snapshot = snapshot_of(node("n", gpus=1), queue("q"), jobs(leaving, member("whole").gpu(1)))
    assert snapshot.nodes.releasing[GPU].tolist() == [1.0]
    assert [each.task.key.name for each in decide(snapshot, Configuration()).pipelined] == ["whole"]


def test_memory_is_a_larger_part_of_a_smaller_device() -> None:
    snapshot = snapshot_of(
        node("large", gpus=1, gpu_memory=80_000),
        node("small", gpus=1, gpu_memory=16_000),
        queue("q"),
        jobs(
            member("a").gpu_memory(12_000).only_on("kubernetes.io/hostname", "large"),
            member("b").gpu_memory(12_000).only_on("kubernetes.io/hostname", "small"),
        ),
    )
    decisions = decide(snapshot, Configuration())
    assert {bind.task.key.name: bind.gpu_portion for bind in decisions.binds} == {"a": 0.15, "b": 0.75}
    assert decisions.queue_allocated["q"][0] == pytest.approx(0.9)


def test_memory_that_no_device_has_is_told_so() -> None:
    snapshot = snapshot_of(node("n", gpus=1, gpu_memory=16_000), queue("q"), jobs(member("greedy").gpu_memory(17_000)))
    assert "1 node(s) didn't have enough resources: GPU memory" in reasons(decide(snapshot, Configuration()))["greedy"]


def test_memory_is_not_given_where_nobody_knows_how_much_there_is() -> None:
    snapshot = snapshot_of(node("n", gpus=1), queue("q"), jobs(member("p").gpu_memory(50), member("f").shares_gpu(0.5)))
    decisions = decide(snapshot, Configuration())
    assert placements(decisions) == {"f": "n"}
    assert "didn't say how much memory their GPUs have" in reasons(decisions)["p"]


def test_a_queue_affords_memory_on_large_devices_only() -> None:
    snapshot = snapshot_of(
        node("large", gpus=1, gpu_memory=80_000),
        node("small", gpus=8, gpu_memory=16_000),
        queue("q", limit=0.5),
        jobs(member("p").gpu_memory(12_000)),
    )
    assert placements(decide(snapshot, Configuration())) == {"p": "large"}


def test_a_new_shared_gpu_needs_a_second_place_for_its_reservation() -> None:
    snapshot = snapshot_of(
        node("n", gpus=2, pods=2),
        queue("q"),
        jobs(member("p").shares_gpu(0.5)),
        pod("other").running_on("n").build(),
    )
    assert "1 node(s) pod number exceeded" in reasons(decide(snapshot, Configuration()))["p"]


def test_a_reservation_pod_takes_a_place_and_no_gpu() -> None:
    reservation = pod("gpu-reservation-1", "kai-resource-reservation").label("app", "kai-resource-reservation")
    snapshot = snapshot_of(
        node("n", gpus=1, pods=3),
        queue("q"),
        jobs(member("old").shares_gpu(0.5).running_on("n").in_gpu_groups("1"), member("new").shares_gpu(0.5)),
        reservation.gpu(1).running_on("n").build(),
    )
    assert snapshot.nodes.idle[GPU].tolist() == [0.0]
    assert groups(decide(snapshot, Configuration())) == {"new": ("1",)}


def bad_annotation(key: str, value: str) -> list[KubeObject]:
    return [pod_group("bad"), member("bad").annotate(key, value).build()]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("gpu-fraction", text) for text in ("NaN", "0", "-0.5", "1.5", "1e-400", "half", "", "inf", "0x1p-1", "1_0")),
        *(("gpu-memory", text) for text in ("0", "-4096", "4Gi", "1.5", "9" * 30)),
        ("gpu-fraction-num-devices", "2"),
    ],
)
def test_an_annotation_that_means_nothing_is_named_and_others_go_on(key: str, value: str) -> None:
    snapshot = snapshot_of(
        node("n", gpus=1, gpu_memory=8000),
        queue("q"),
        bad_annotation(key, value),
        jobs(member("good").shares_gpu(0.5)),
    )
    decisions = decide(snapshot, Configuration())
    assert placements(decisions) == {"good": "n"}
    assert f"annotation {key}" in reasons(decisions)["bad"]


def test_fraction_and_memory_exclude_each_other() -> None:
    both = member("both").shares_gpu(0.5).gpu_memory(100)
    snapshot = snapshot_of(node("n", gpus=1), queue("q"), jobs(both))
    assert "exclude each other" in reasons(decide(snapshot, Configuration()))["both"]


def test_a_running_pod_with_an_annotation_that_means_nothing_still_counts() -> None:
    running: Pod = pod("old").annotate("gpu-fraction", "half").cpu("1").gpu(1).running_on("n").build()
    snapshot = snapshot_of(node("n", gpus=1, cpu="1"), queue("q"), running)
    assert snapshot.nodes.idle[:3, 0].tolist()[0] == 0.0
    assert snapshot.nodes.idle[GPU, 0] == 0.0


def test_instances_of_partitioned_gpus_cost_what_they_are() -> None:
    mig = "nvidia.com/mig-3g.40gb"
    snapshot = snapshot_of(
        node("whole"),
        node("parted", gpus=0, extended={mig: "2"}, labels={"nvidia.com/mig.strategy": "mixed"}),
        queue("q", limit=4),
        jobs(member("a").asks(mig, "1"), member("b").asks(mig, "1"), member("c").gpu(1)),
    )
    decisions = decide(snapshot, Configuration())
    assert placements(decisions) == {"a": "parted", "c": "whole"}
    assert "limit" in reasons(decisions)["b"]
    assert decisions.queue_allocated["q"][0] == 4.0


def test_who_takes_whole_gpus_keeps_away_from_partitioned_ones() -> None:
    snapshot = snapshot_of(
        node(
            "parted", gpus=2, labels={"node-role.kubernetes.io/mig-enabled": "true", "nvidia.com/mig.strategy": "mixed"}
        ),
        queue("q"),
        jobs(member("a").gpu(1), member("b").shares_gpu(0.5)),
    )
    reported = reasons(decide(snapshot, Configuration()))
    assert "MigStrategy='mixed'" in reported["a"]
    assert "MigStrategy='mixed'" in reported["b"]
