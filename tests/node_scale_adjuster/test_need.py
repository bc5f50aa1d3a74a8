"""Which scaling pods follow from the pods that wait."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodStatus,
    WeightedPodAffinityTerm,
)
from bosket.api.object import LabelSelector, ObjectKey
from bosket.services.node_scale import Options
from bosket.services.node_scale.need import missing_pods, need_of, needed_gpus, sort_out, waits_for_part
from bosket.services.node_scale.scaling_pod import asked_gpus, scaling_pod, source_of
from bosket.testing.build import PodBuilder, pod

OPTIONS = Options()


def unschedulable(builder: PodBuilder, **status: Any) -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    return msgspec.structs.replace(builder.build(), status=PodStatus(conditions=(condition,), **status))


def shares(name: str, portion: str, devices: int = 1) -> Pod:
    return unschedulable(pod(name).shares_gpu(portion, devices))


def asked(*pods: Pod, kept: tuple[Pod, ...] = ()) -> list[tuple[str, int]]:
    return [(each.metadata.name, asked_gpus(each)) for each in missing_pods(pods, kept, OPTIONS)]


@pytest.mark.parametrize(
    ("waiting", "gpus"),
    [
        ([("0.5", 1)], 1),
        ([("0.5", 1)] * 2, 1),
        ([("0.5", 1)] * 3, 2),
        ([("0.1", 1)] * 10, 1),
        ([("0.125", 1)] * 8, 2),  # each counts 13 hundredths
        ([("0.004", 1)], 0),
        ([("0.5", 4)], 2),
        ([("0.3", 2), ("0.7", 1)], 2),
    ],
)
def test_parts_are_added_up_in_hundredths_and_rounded_up_to_whole_gpus(
    waiting: list[tuple[str, int]], gpus: int
) -> None:
    needs = [need_of(shares(str(index), *each), 0.1) for index, each in enumerate(waiting)]
    assert needed_gpus(each for each in needs if each is not None) == gpus


def test_memory_counts_as_a_tenth_of_each_device() -> None:
    need = need_of(unschedulable(pod("a").gpu_memory(4096, devices=3)), 0.1)
    assert need is not None
    assert (need.hundredths, need.devices) == (10, 3)


@pytest.mark.parametrize(
    "annotations",
    [{"gpu-fraction": "half"}, {"gpu-memory": "1Gi"}, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "x"}],
)
def test_what_cannot_be_read_asks_for_nothing(annotations: dict[str, str]) -> None:
    builder = pod("a")
    for key, value in annotations.items():
        builder = builder.annotate(key, value)
    assert need_of(unschedulable(builder), 0.1) is None
    assert asked(unschedulable(builder)) == []


def test_only_pods_that_a_scheduler_found_no_node_for_count() -> None:
    waiting = shares("a", "0.5")
    assert waits_for_part(waiting)
    assert not waits_for_part(pod("a").shares_gpu(0.5).build())  # nothing was said about it yet
    assert not waits_for_part(unschedulable(pod("a").gpu(1)))  # autoscalers see this one themselves
    assert not waits_for_part(unschedulable(pod("a").shares_gpu(0.5).running_on("n")))
    assert not waits_for_part(unschedulable(pod("a").shares_gpu(0.5), phase="Failed"))
    assert not waits_for_part(unschedulable(pod("a").shares_gpu(0.5).being_deleted_at(1.0)))


def test_scaling_pods_are_created_until_their_gpus_are_enough() -> None:
    assert asked(shares("a", "0.5"), shares("b", "0.5"), shares("c", "0.5")) == [("default-a", 1), ("default-b", 1)]


def test_a_pod_that_wants_more_devices_than_any_scaling_pod_has_gets_one_of_its_own() -> None:
    small = scaling_pod(shares("a", "0.5"), 1, OPTIONS)
    assert asked(shares("a", "0.5"), shares("b", "0.1", devices=4), kept=(small,)) == [("default-b", 4)]


def test_the_largest_ask_comes_first_so_that_few_scaling_pods_are_made() -> None:
    assert asked(shares("a", "0.5"), shares("b", "0.5"), shares("z", "0.1", devices=4)) == [("default-z", 4)]


def test_what_is_there_counts() -> None:
    there = scaling_pod(shares("a", "0.5"), 1, OPTIONS)
    assert asked(shares("a", "0.5"), shares("b", "0.5"), kept=(there,)) == []
    assert asked(shares("a", "0.9"), shares("b", "0.9"), kept=(there,)) == [("default-b", 1)]


def test_a_scaling_pod_is_needless_when_it_ended_or_its_source_is_gone_or_has_a_place() -> None:
    source, other = shares("a", "0.5"), pod("b").shares_gpu(0.5).build()
    placed = msgspec.structs.replace(
        other, status=PodStatus(conditions=(PodCondition(type="PodScheduled", status="True"),))
    )
    made = scaling_pod(source, 1, OPTIONS)
    ended = [msgspec.structs.replace(made, status=PodStatus(phase=phase)) for phase in ("Succeeded", "Failed")]
    key = ObjectKey("default", "a")
    assert sort_out([made], {key: source}) == ([], [made])
    assert sort_out([made], {key: other}) == ([], [made])  # nothing was said about that one yet
    assert sort_out([made], {key: placed}) == ([made], [])
    assert sort_out([made], {}) == ([made], [])
    assert sort_out(ended, {key: source}) == (ended, [])


def test_a_scaling_pod_goes_wherever_its_source_may_go_and_asks_for_the_same_with_whole_gpus() -> None:
    term = PodAffinityTerm(topologyKey="rack", labelSelector=LabelSelector(matchLabels={"app": "x"}))
    there = msgspec.structs.replace(term, namespaces=("elsewhere",))
    affinity = Affinity(
        podAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term, there)),
        podAntiAffinity=PodAntiAffinity(
            preferredDuringSchedulingIgnoredDuringExecution=(WeightedPodAffinityTerm(weight=1, podAffinityTerm=term),)
        ),
    )
    builder = pod("a", "ml").shares_gpu(0.5, devices=2).cpu("500m").memory("1Gi").only_on("pool", "gpu")
    source = unschedulable(builder.tolerates("nvidia.com/gpu").with_spec(affinity=affinity))
    made = scaling_pod(source, 2, OPTIONS)
    (container,) = made.spec.containers
    assert made.key == ObjectKey("kai-scale-adjust", "ml-a")
    assert made.metadata.labels == {
        "app": "scaling-pod",
        "shared-gpu-pod-name": "a",
        "shared-gpu-pod-namespace": "ml",
    }
    assert made.metadata.annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert container.resources.requests == {"nvidia.com/gpu": "2", "cpu": "500m", "memory": "1Gi"}
    assert container.resources.limits == {"nvidia.com/gpu": "2"}
    assert (made.spec.schedulerName, made.spec.restartPolicy) == ("default-scheduler", "OnFailure")
    assert made.spec.tolerations == source.spec.tolerations
    assert made.spec.nodeSelector == {"pool": "gpu"}
    # Seen from another namespace, the pods it wants to be near are the same ones.
    assert made.spec.affinity is not None
    assert made.spec.affinity.podAffinity is not None
    near = made.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert [each.namespaces for each in near] == [("ml",), ("elsewhere",)]


def test_requests_of_all_containers_are_added_up() -> None:
    source = shares("a", "0.5")
    first = msgspec.structs.replace(
        source.spec.containers[0],
        resources=msgspec.structs.replace(source.spec.containers[0].resources, requests={"cpu": "250m"}),
    )
    two = msgspec.structs.replace(source, spec=msgspec.structs.replace(source.spec, containers=(first, first)))
    assert scaling_pod(two, 1, OPTIONS).spec.containers[0].resources.requests["cpu"] == "500m"


def test_names_too_long_for_a_label_are_kept_whole_elsewhere() -> None:
    source = unschedulable(pod("a" * 250, "n" * 60).shares_gpu(0.5))
    made = scaling_pod(source, 1, OPTIONS)
    assert len(made.metadata.name) <= 253
    assert len(made.metadata.labels["shared-gpu-pod-name"]) == 63
    assert source_of(made) == source.key


def test_two_pods_whose_scaling_pods_would_have_one_name_get_one_each() -> None:
    first, second = (unschedulable(pod(name, ns).shares_gpu(0.9)) for ns, name in (("a-b", "c"), ("a", "b-c")))
    made = missing_pods([first, second], [], OPTIONS)
    assert len({each.metadata.name for each in made}) == 2
    assert {source_of(each) for each in made} == {first.key, second.key}
