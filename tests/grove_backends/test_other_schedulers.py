"""Volcano, Koordinator and YuniKorn: their own words, and what can't be said in them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bosket.api import koordinator, volcano
from bosket.api.core import Container, ResourceRequirements
from bosket.api.core.affinity import Toleration
from bosket.api.grove import (
    ClusterTopologyBinding,
    ClusterTopologyBindingSpec,
    PodGang,
    TopologyConstraintGroupConfig,
    TopologyLevel,
)
from bosket.api.object import ObjectMeta
from bosket.grove.backends import Refused, Surroundings, prepare_pod
from bosket.grove.backends.koordinator import KoordinatorBackend
from bosket.grove.backends.volcano import QUEUE_ANNOTATION, VolcanoBackend
from bosket.grove.backends.yunikorn import YuniKornBackend
from tests.grove_backends.scene import around, clique, clique_set, member, pack, part, pod_gang

VOLCANO, KOORDINATOR, YUNIKORN = VolcanoBackend(), KoordinatorBackend(), YuniKornBackend()
LEVELS = (TopologyLevel(domain="zone", key="k/zone"), TopologyLevel(domain="rack", key="k/rack"))
BINDING = ClusterTopologyBinding(metadata=ObjectMeta(name="t"), spec=ClusterTopologyBindingSpec(levels=LEVELS))
IN_TOPOLOGY = {"grove.io/topology-name": "t"}


def hyper_node(tier: int, name: str = "") -> volcano.HyperNode:
    return volcano.HyperNode(metadata=ObjectMeta(name=f"h{tier}"), spec=volcano.HyperNodeSpec(tier=tier, tierName=name))


def network() -> koordinator.ClusterNetworkTopology:
    layers = (
        koordinator.NetworkTopologyLayer(topologyLayer="SpineLayer", labelKey=("k/zone",)),
        koordinator.NetworkTopologyLayer(topologyLayer="LeafLayer", labelKey=("k/rack",)),
    )
    spec = koordinator.ClusterNetworkTopologySpec(networkTopologySpec=layers)
    return koordinator.ClusterNetworkTopology(metadata=ObjectMeta(name="default"), spec=spec)


# --- Volcano


def in_volcano(gang: PodGang, *related: Any) -> volcano.PodGroupSpec:
    (group,) = VOLCANO.sync(gang, around(VOLCANO, related=related)).objects
    assert isinstance(group, volcano.PodGroup)
    return group.spec


def test_volcano_gets_a_policy_for_each_part() -> None:
    spec = in_volcano(pod_gang("g", part("a", 2), part("b", 1), annotations={QUEUE_ANNOTATION: "team"}))
    assert (spec.minMember, spec.queue) == (3, "team")
    assert [(each.name, each.subGroupSize, each.minSubGroups) for each in spec.subGroupPolicy] == [
        ("a", 2, 1),
        ("b", 1, 1),
    ]


@pytest.mark.parametrize(
    ("of_gang", "of_cliques", "queue"),
    [("", ["", ""], "default"), ("team", ["", ""], "team"), ("", ["", "team"], "team"), ("team", ["team", ""], "team")],
)
def test_volcano_has_the_queue_that_the_set_or_its_cliques_name(
    of_gang: str, of_cliques: list[str], queue: str
) -> None:
    """Unit table "Volcano: queues"."""
    cliques = (
        msgspec.structs.replace(clique(f"c{index}"), annotations={QUEUE_ANNOTATION: each} if each else {})
        for index, each in enumerate(of_cliques)
    )
    owner = clique_set("s", *cliques)
    gang = pod_gang("s-0", part("s-0-c0"), annotations={QUEUE_ANNOTATION: of_gang} if of_gang else {}, owner=owner)
    (group,) = VOLCANO.sync(gang, around(VOLCANO, owner=owner)).objects
    assert isinstance(group, volcano.PodGroup)
    assert group.spec.queue == queue


def test_volcano_keeps_minimums_that_an_update_takes_away() -> None:
    gang = pod_gang("g", part("a", 2))
    (found,) = VOLCANO.sync(gang, around(VOLCANO)).objects
    (wanted,) = VOLCANO.sync(pod_gang("g", part("a", 0)), around(VOLCANO)).objects
    assert VOLCANO.update(found, wanted) == found


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([hyper_node(1, "rack"), hyper_node(2, "zone")], volcano.NetworkTopology(mode="hard", highestTierName="rack")),
        ([hyper_node(1), hyper_node(2)], volcano.NetworkTopology(mode="hard", highestTierAllowed=1)),
    ],
)
def test_volcano_is_told_levels_as_tiers(nodes: list[volcano.HyperNode], expected: volcano.NetworkTopology) -> None:
    gang = pod_gang(
        "g", part("a", topology=pack(preferred="k/zone")), annotations=IN_TOPOLOGY, topologyConstraint=pack("k/rack")
    )
    spec = in_volcano(gang, BINDING, *nodes)
    assert spec.networkTopology == expected
    assert spec.subGroupPolicy[0].networkTopology is not None
    assert spec.subGroupPolicy[0].networkTopology.mode == "soft"


def test_volcano_refuses_what_no_tier_stands_for_and_leaves_preferences_out() -> None:
    with pytest.raises(Refused, match="the gang must be in one domain of k/rack, and no tier of HyperNodes"):
        in_volcano(pod_gang("g", part("a"), annotations=IN_TOPOLOGY, topologyConstraint=pack("k/rack")), BINDING)
    gang = pod_gang("g", part("a"), annotations=IN_TOPOLOGY, topologyConstraint=pack(preferred="k/rack"))
    assert in_volcano(gang, BINDING).networkTopology is None
    (left_out,) = VOLCANO.sync(gang, around(VOLCANO, related=(BINDING,))).left_out
    assert left_out.startswith("the gang prefers one domain of k/rack")


def test_volcano_refuses_to_keep_some_parts_together() -> None:
    config = TopologyConstraintGroupConfig(name="g-0", podGroupNames=("a",), topologyConstraint=pack("k/rack"))
    with pytest.raises(Refused, match="Volcano can't keep some pod groups together"):
        in_volcano(pod_gang("g", part("a"), topologyConstraintGroupConfigs=(config,)), BINDING, hyper_node(1))


def test_volcano_says_why_a_gang_waits() -> None:
    gang = pod_gang("g", part("a"))
    (group,) = VOLCANO.sync(gang, around(VOLCANO)).objects
    told = volcano.PodGroupCondition(
        type="Unschedulable", status="True", reason="NotEnoughResources", message="no room"
    )
    group = msgspec.structs.replace(group, status=volcano.PodGroupStatus(conditions=(told,)))
    verdict = VOLCANO.verdict(gang, around(VOLCANO, owned=(group,)))
    assert (verdict.reason, verdict.message) == ("NotEnoughResources", "no room")


# --- Koordinator


def test_koordinator_gets_a_pod_group_for_each_part_bound_together() -> None:
    gang = pod_gang("g", part("a", 1, pods=2), part("b", 1))
    first, second = KOORDINATOR.sync(gang, around(KOORDINATOR)).objects
    prefix = "gang.scheduling.koordinator.sh"
    assert first.metadata.annotations == {
        f"{prefix}/mode": "Strict",
        f"{prefix}/groups": '["ml/a", "ml/b"]',
        f"{prefix}/match-policy": "once-satisfied",
        f"{prefix}/total-number": "2",
    }
    assert (first.metadata.name, second.metadata.name) == ("a", "b")
    pod = prepare_pod(KOORDINATOR, gang, member("g", "a"), around(KOORDINATOR))
    assert pod.spec.schedulerName == "koord-scheduler"
    assert pod.metadata.labels["pod-group.scheduling.sigs.k8s.io"] == "a"
    assert [each.name for each in pod.spec.schedulingGates] == ["scheduling.koordinator.sh/gang"]


SIGS, OWN = ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"), ("scheduling.koordinator.sh/v1alpha1", "PodGroup")


@pytest.mark.parametrize(
    ("served", "kind"),
    [([SIGS], koordinator.PodGroup), ([OWN], koordinator.OwnPodGroup), ([SIGS, OWN], koordinator.PodGroup)],
)
def test_koordinators_pod_groups_are_of_the_api_group_that_is_served(
    served: list[tuple[str, str]], kind: type[koordinator.PodGroup]
) -> None:
    cluster = Surroundings(served=frozenset(served))
    assert [type(each) for each in KOORDINATOR.sync(pod_gang("g", part("a")), cluster).objects] == [kind]
    assert KOORDINATOR.kinds_in(cluster.served) == (kind,)


def test_koordinator_says_which_api_groups_it_looked_for() -> None:
    with pytest.raises(Refused, match=r"neither of scheduling.sigs.k8s.io/v1alpha1 nor of scheduling.koordinator.sh"):
        KOORDINATOR.sync(pod_gang("g", part("a")), Surroundings())


def test_koordinator_gathers_a_gang_in_the_layers_of_its_network() -> None:
    gang = pod_gang("g", part("a"), part("b"), topologyConstraint=pack("k/zone", "k/rack"))
    first, _ = KOORDINATOR.sync(gang, around(KOORDINATOR, related=(network(),))).objects
    assert json.loads(first.metadata.annotations["gang.scheduling.koordinator.sh/network-topology-spec"]) == {
        "gatherStrategy": [
            {"layer": "SpineLayer", "strategy": "MustGather"},
            {"layer": "LeafLayer", "strategy": "PreferGather"},
        ]
    }


def test_koordinator_refuses_what_it_has_no_layer_for_and_what_concerns_a_part() -> None:
    with pytest.raises(Refused, match="no layer of a ClusterNetworkTopology has that label"):
        KOORDINATOR.sync(pod_gang("g", part("a"), topologyConstraint=pack("k/rack")), around(KOORDINATOR))
    parts = pod_gang("g", part("a", topology=pack("k/rack")), part("b"))
    with pytest.raises(Refused, match="a must be in one domain of k/rack; Koordinator gathers gangs as a whole only"):
        KOORDINATOR.sync(parts, around(KOORDINATOR, related=(network(),)))
    alone = pod_gang("g", part("a", topology=pack("k/rack")))
    assert KOORDINATOR.sync(alone, around(KOORDINATOR, related=(network(),))).left_out == ()


# --- YuniKorn


def asking(cpu: str) -> tuple[Container, ...]:
    return (Container(name="main", image="i", resources=ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})),)


def test_yunikorn_pods_tell_of_the_whole_gang() -> None:
    owner = clique_set("s", clique("a", containers=asking("1")), clique("b", containers=asking("4")))
    gang = pod_gang("s-0", part("s-0-a", 2), part("s-0-b", 1), labels={"yunikorn.apache.org/queue": "root.team"})
    sidecar = Container(name="proxy", image="i", restartPolicy="Always", resources=asking("500m")[0].resources)
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    bare = member("s-0", "s-0-a", containers=asking("1"), initContainers=(sidecar,), tolerations=tolerations)
    pod = prepare_pod(YUNIKORN, gang, bare, around(YUNIKORN, owner=owner))
    assert pod.metadata.labels["yunikorn.apache.org/app-id"] == "s-0"
    assert pod.metadata.labels["yunikorn.apache.org/queue"] == "root.team"
    assert pod.metadata.annotations["yunikorn.apache.org/task-group-name"] == "s-0-a"
    assert json.loads(pod.metadata.annotations["yunikorn.apache.org/task-groups"]) == [
        {
            "name": "s-0-a",
            "minMember": 2,
            "minResource": {"cpu": "1500m", "memory": "2Gi"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
        {"name": "s-0-b", "minMember": 1, "minResource": {"cpu": "4", "memory": "1Gi"}},
    ]


def test_yunikorn_refuses_topology_that_must_hold() -> None:
    gang = pod_gang("g", part("a", topology=pack("k/rack")))
    with pytest.raises(Refused, match="a must be in one domain of k/rack; YuniKorn has no topology constraints"):
        YUNIKORN.sync(gang, around(YUNIKORN))
    (left_out,) = YUNIKORN.sync(pod_gang("g", part("a", topology=pack(preferred="k/rack"))), around(YUNIKORN)).left_out
    assert left_out.startswith("a prefers one domain of k/rack")


def test_yunikorn_must_know_what_all_pods_ask_for() -> None:
    with pytest.raises(Refused, match="s-0-b: no clique of its PodCliqueSet says what its pods ask for"):
        prepare_pod(YUNIKORN, pod_gang("g", part("a"), part("s-0-b")), member("g", "a"), around(YUNIKORN))
