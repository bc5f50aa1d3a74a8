"""Where the scheduler puts pods when kubelets align them to NUMA zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.kai import BindRequest, BindRequestSpec
from bosket.api.keys import NUMA_PREDICTED_ANNOTATION
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, numa_zones, pod, pod_group, priority_class, queue
from bosket.testing.cluster import NOW, decided, evictions, pipelines, reasons, state_of
from bosket.testing.cluster import placements as nodes_by_pod
from tests.numa.zoned import aligning, guaranteed, placements, seen_in, written, zones_by_pod

TWO = ({"cpu": "4"}, {"cpu": "4"})
OBJECTION = "node cannot NUMA-align the pod's resources under its Topology Manager policy"


def one(member: PodBuilder, *objects: KubeObject, name: str = "g", **arguments: str) -> Decisions:
    """What is decided about one pod."""
    own = member.of_group(name).build()
    return decided(queue("q"), pod_group(name), own, *objects, configuration=aligning(**arguments))


def test_a_pod_goes_to_the_lowest_zone_that_has_room_and_its_bind_says_so() -> None:
    decisions = one(guaranteed("g"), node("n"), numa_zones("n", *TWO))
    assert zones_by_pod(decisions) == {"g": {"node-0": {"cpu": "3"}}}


def test_zones_are_put_in_order_by_their_numbers_whatever_the_exporter_says_first() -> None:
    zones = numa_zones("n", *TWO, *TWO, *TWO)
    names = ("node-10", "node-9", "odd", "node-2", "node-11", "node-3")
    renamed = replace(zones, zones=tuple(replace(z, name=name) for z, name in zip(zones.zones, names, strict=True)))
    decisions = one(guaranteed("g"), node("n"), renamed)
    assert zones_by_pod(decisions) == {"g": {"node-2": {"cpu": "3"}}}


def test_only_zones_that_are_numa_nodes_count() -> None:
    zones = numa_zones("n", *TWO)
    socket = replace(zones.zones[0], name="socket-0", type="Socket")
    decisions = one(guaranteed("g"), node("n"), replace(zones, zones=(socket, *zones.zones)))
    assert list(zones_by_pod(decisions)["g"]) == ["node-0"]


def test_a_pod_that_no_zone_can_hold_waits_and_is_told_why() -> None:
    decisions = one(guaranteed("g", cpu="6"), node("n"), numa_zones("n", *TWO))
    assert decisions.binds == ()
    assert OBJECTION in reasons(decisions)["g"]


def test_a_pod_goes_where_it_can_be_aligned() -> None:
    small, large = numa_zones("a", {"cpu": "2"}, {"cpu": "2"}), numa_zones("b", *TWO)
    decisions = one(guaranteed("g"), node("a"), node("b"), small, large)
    assert nodes_by_pod(decisions) == {"g": "b"}


def test_pods_of_one_cycle_share_zones_until_they_are_full() -> None:
    groups = [each for name in "abc" for each in (pod_group(name), guaranteed(name).build())]
    decisions = decided(queue("q"), node("n"), numa_zones("n", *TWO), *groups, configuration=aligning())
    assert zones_by_pod(decisions) == {"a": {"node-0": {"cpu": "3"}}, "b": {"node-1": {"cpu": "3"}}}
    assert OBJECTION in reasons(decisions)["c"]


def test_restricted_splits_a_pod_over_as_many_zones_as_it_takes() -> None:
    decisions = one(guaranteed("g", cpu="6"), node("n"), numa_zones("n", *TWO, policy="restricted"))
    assert zones_by_pod(decisions) == {"g": {"node-0": {"cpu": "4"}, "node-1": {"cpu": "2"}}}


def test_best_effort_refuses_nobody() -> None:
    decisions = one(guaranteed("g", cpu="9"), node("n"), numa_zones("n", *TWO, policy="best-effort"))
    assert zones_by_pod(decisions) == {"g": {}}


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_policies_that_refuse_nobody_take_pods_that_no_zone_can_hold(policy: str) -> None:
    decisions = one(guaranteed("g", cpu="6"), node("n"), numa_zones("n", *TWO, policy=policy))
    assert nodes_by_pod(decisions) == {"g": "n"}


def test_a_pod_that_is_not_guaranteed_is_not_aligned() -> None:
    burstable = pod("g").cpu("6").memory("1Gi")
    assert zones_by_pod(one(burstable, node("n"), numa_zones("n", *TWO))) == {"g": {}}


def test_a_pod_that_asks_for_devices_is_aligned_by_them_alone() -> None:
    zones = numa_zones("n", {"cpu": "4", "nvidia.com/gpu": "2"}, {"cpu": "4", "nvidia.com/gpu": "4"})
    decisions = one(pod("g").cpu("20").gpu(4), node("n"), zones)
    assert zones_by_pod(decisions) == {"g": {"node-1": {"nvidia.com/gpu": "4"}}}
    assert one(pod("g").gpu(5), node("n"), zones).binds == ()


def test_memory_is_counted_where_zones_tell_about_it() -> None:
    zones = numa_zones("n", {"cpu": "8", "memory": "4Gi"}, {"cpu": "8", "memory": "16Gi"})
    decisions = one(guaranteed("g", cpu="2", memory="8Gi"), node("n"), zones)
    assert zones_by_pod(decisions) == {"g": {"node-1": {"cpu": "2", "memory": "8589934592"}}}


def test_by_container_a_pod_may_be_larger_than_any_zone() -> None:
    member = guaranteed("g", cpu="3").build()
    two = replace(member, spec=replace(member.spec, containers=member.spec.containers * 2))
    for scope, expected in (("container", ["node-0", "node-1"]), ("pod", None)):
        zones = numa_zones("n", *TWO, scope=scope)
        decisions = decided(queue("q"), pod_group("g"), two, node("n"), zones, configuration=aligning())
        assert list(zones_by_pod(decisions).get("g", ())) == (expected or [])


def test_nodes_where_a_pod_spans_few_zones_are_preferred() -> None:
    spread = numa_zones("a", *[{"cpu": "2"}] * 4, policy="best-effort")
    tight = numa_zones("b", *TWO, policy="best-effort")
    nodes = (node("a"), node("b"), node("c"))
    assert nodes_by_pod(one(guaranteed("g", cpu="4"), *nodes, spread, tight)) == {"g": "b"}
    unmanaged = numa_zones("b", *TWO, policy="none")  # a pod may be all over its two zones
    assert nodes_by_pod(one(guaranteed("g", cpu="6"), *nodes, spread, unmanaged)) == {"g": "b"}


def test_a_node_that_says_nothing_is_taken_for_the_worst() -> None:
    four = numa_zones("b", *[{"cpu": "2"}] * 4, policy="best-effort")
    assert nodes_by_pod(one(guaranteed("g", cpu="4"), node("a"), node("b"), four)) == {"g": "b"}
    assert nodes_by_pod(one(guaranteed("g", cpu="7"), node("a"), node("b"), four)) == {"g": "a"}


def running(name: str, zones: Mapping[str, dict[str, str]], on: str = "n", **annotations: Any) -> list[KubeObject]:
    member = guaranteed(name).running_on(on)
    for key, value in annotations.items():
        member = member.annotate(key, value)
    return [pod_group(name), (seen_in(member, zones) if zones else member).build()]


def test_zones_are_as_free_as_running_pods_leave_them() -> None:
    decisions = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), *running("r", {"node-0": {"cpu": "3"}}))
    assert list(zones_by_pod(decisions)["g"]) == ["node-1"]


def test_what_was_seen_counts_more_than_what_was_expected() -> None:
    member = guaranteed("r").running_on("n").annotate(NUMA_PREDICTED_ANNOTATION, written({"node-0": {"cpu": "3"}}))
    expected = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), pod_group("r"), member.build())
    assert list(zones_by_pod(expected)["g"]) == ["node-1"]
    seen = seen_in(member, {"node-1": {"cpu": "3"}}).build()
    observed = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), pod_group("r"), seen)
    assert list(zones_by_pod(observed)["g"]) == ["node-0"]


def test_a_bind_request_under_way_counts_more_than_an_older_expectation() -> None:
    member = guaranteed("r").annotate(NUMA_PREDICTED_ANNOTATION, written({"node-1": {"cpu": "3"}}))
    request = BindRequest(
        metadata=ObjectMeta(name="r", namespace="default"),
        spec=BindRequestSpec(podName="r", selectedNode="n", predictedNUMAZones=placements({"node-0": {"cpu": "3"}})),
    )
    zones = numa_zones("n", *TWO)
    decisions = one(guaranteed("g"), node("n"), zones, request, pod_group("r"), member.build())
    assert list(zones_by_pod(decisions)["g"]) == ["node-1"]


def test_of_a_record_that_names_an_unknown_zone_nothing_is_believed() -> None:
    record = {"node-0": {"cpu": "3"}, "node-7": {"cpu": "1"}}
    decisions = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), *running("r", record))
    assert list(zones_by_pod(decisions)["g"]) == ["node-0"]


def leaving(name: str, zone: str) -> list[KubeObject]:
    member = seen_in(guaranteed(name).running_on("n"), {zone: {"cpu": "3"}}).being_deleted_at(NOW)
    return [pod_group(name), member.build()]


def test_a_pod_waits_for_the_zone_of_one_that_is_leaving() -> None:
    """Bound at once, its kubelet would refuse it."""
    others = [*leaving("r0", "node-0"), *running("r1", {"node-1": {"cpu": "3"}})]
    decisions = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), *others)
    assert decisions.binds == ()
    assert pipelines(decisions) == {"g": "n"}
    unrefused = one(guaranteed("g"), node("n"), numa_zones("n", *TWO, policy="best-effort"), *others)
    assert nodes_by_pod(unrefused) == {"g": "n"}


def test_a_zone_that_is_free_now_is_taken_rather_than_one_that_is_being_left() -> None:
    decisions = one(guaranteed("g"), node("n"), numa_zones("n", *TWO), *leaving("r", "node-0"))
    assert list(zones_by_pod(decisions)["g"]) == ["node-1"]


def test_nobody_is_bound_to_what_another_waits_for() -> None:
    objects = [
        queue("q"), node("n"), numa_zones("n", *TWO),
        *leaving("r0", "node-0"), *running("r1", {"node-1": {"cpu": "3"}}),
        pod_group("a"), guaranteed("a").build(), pod_group("b"), guaranteed("b", cpu="1").build(),
        pod_group("c"), guaranteed("c", cpu="1").build(), pod_group("d"), guaranteed("d", cpu="1").build(),
    ]  # fmt: skip
    decisions = decided(*objects, configuration=aligning())
    assert pipelines(decisions) == {"a": "n"}
    assert zones_by_pod(decisions) == {"b": {"node-0": {"cpu": "1"}}, "c": {"node-1": {"cpu": "1"}}}


def test_what_an_exporter_says_is_available_counts_where_it_is_asked_for() -> None:
    zones = numa_zones("n", *TWO)
    busy = replace(zones.zones[0], resources=(replace(zones.zones[0].resources[0], available="1"),))
    zones = replace(zones, zones=(busy, zones.zones[1]))
    trusting = one(guaranteed("g"), node("n"), zones, reconstructAvailable="false")
    assert list(zones_by_pod(trusting)["g"]) == ["node-1"]
    assert list(zones_by_pod(one(guaranteed("g"), node("n"), zones))["g"]) == ["node-0"]


def test_resources_on_the_ignore_list_are_aligned_to_nothing() -> None:
    zones = numa_zones("n", {"cpu": "4", "nvidia.com/gpu": "1"}, {"cpu": "4", "nvidia.com/gpu": "1"})
    member = guaranteed("g").gpu(2)
    assert one(member, node("n"), zones).binds == ()
    decisions = one(member, node("n"), zones, ignoreList="example.com/nic, nvidia.com/gpu")
    assert zones_by_pod(decisions) == {"g": {"node-0": {"cpu": "3"}}}


def test_an_argument_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="reconstructAvailable is 'maybe'"):
        one(guaranteed("g"), node("n"), reconstructAvailable="maybe")


def test_without_the_plugin_zones_change_nothing() -> None:
    decisions = decided(queue("q"), pod_group("g"), guaranteed("g", cpu="6").build(), node("n"), numa_zones("n", *TWO))
    assert zones_by_pod(decisions) == {"g": {}}


def test_older_exporters_say_policy_and_scope_in_one_word() -> None:
    zones = replace(numa_zones("n", *TWO), attributes=(), topologyPolicies=("SingleNUMANodePodLevel",))
    assert one(guaranteed("g", cpu="6"), node("n"), zones).binds == ()


def test_a_victim_makes_room_in_its_own_zone_and_others_stay() -> None:
    objects = [
        queue("q"), node("n"), numa_zones("n", *TWO),
        pod_group("high", priority="high"), guaranteed("high").build(),
        *running("r0", {"node-0": {"cpu": "3"}}), *running("r1", {"node-1": {"cpu": "3"}}),
    ]  # fmt: skip
    decisions = decided(*objects, priority_class("high", 60), configuration=aligning("preempt"))
    assert len(evictions(decisions)) == 1
    assert pipelines(decisions) == {"high": "n"}


def test_a_pod_moves_to_another_node_so_that_one_that_cannot_has_its_zone() -> None:
    stays = guaranteed("g").only_on("kubernetes.io/hostname", "a")
    decisions = decided(
        queue("q"), node("a"), node("b"), numa_zones("a", {"cpu": "4"}), numa_zones("b", *TWO),
        pod_group("g"), stays.build(), *running("r", {"node-0": {"cpu": "3"}}, on="a"),
        configuration=aligning("allocate", "consolidation"),
    )  # fmt: skip
    assert pipelines(decisions) == {"g": "a", "r": "b"}


def test_a_topology_that_comes_later_or_goes_is_reckoned_with() -> None:
    zones = numa_zones("n", *TWO)
    objects = [queue("q"), node("n"), pod_group("g"), guaranteed("g", cpu="6").build()]
    state = state_of(objects)

    def binds() -> int:
        return len(decide(state.snapshot(NOW), aligning()).binds)

    assert binds() == 1
    state.put(zones)
    assert binds() == 0
    state.put(replace(zones, attributes=()))
    assert binds() == 1
    state.put(zones)
    assert binds() == 0
    state.drop(zones)
    assert binds() == 1


def test_the_same_words_again_make_no_new_snapshot() -> None:
    zones = numa_zones("n", *TWO)
    state = state_of([queue("q"), node("n"), zones])
    before = state.snapshot(NOW)
    state.put(replace(zones, metadata=replace(zones.metadata, resourceVersion="7")))
    assert state.snapshot(NOW) is before
