"""Which node a pod gets: what it must have, and which of several it prefers."""

from collections.abc import Sequence

import msgspec

from bosket.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from bosket.api.keys import NODE_GPU_COUNT_LABEL
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import gang, node, pod, pod_group, queue, tainted
from bosket.testing.cluster import NOW, decided, placements, reasons

SPREAD = Configuration(
    plugins=tuple(
        PluginChoice("nodeplacement", {"gpu": "spread", "cpu": "spread"}) if choice.name == "nodeplacement" else choice
        for choice in Configuration().plugins
    )
)


def one(*objects: KubeObject | Sequence[KubeObject]) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def test_pods_are_packed_onto_the_fullest_node() -> None:
    running = pod("r").gpu(5).running_on("n2").build()
    assert placements(one(node("n1"), node("n2"), running, gang("g", 1))) == {"g-0": "n2"}


def test_ties_go_to_the_smallest_name() -> None:
    assert placements(one(node("n2"), node("n1"), gang("g", 1))) == {"g-0": "n1"}


def test_spread_prefers_the_emptiest_node() -> None:
    running = pod("r").gpu(5).running_on("n1").build()
    decisions = decided(queue("q"), pod_group("g"), node("n1"), node("n2"), running, gang("g", 1), configuration=SPREAD)
    assert placements(decisions) == {"g-0": "n2"}


def test_spread_counts_the_gpus_that_a_node_says_it_has() -> None:
    """Both have five free: more of the eight of `n1` than of the ten of `n2`, which offers only six of them."""
    busy = [pod("r1").gpu(3).running_on("n1").build(), pod("r2").gpu(1).running_on("n2").build()]
    for label, best in (("10", "n1"), ("6", "n2"), ("many", "n2")):
        nodes = [node("n1"), node("n2", gpus=6, labels={NODE_GPU_COUNT_LABEL: label})]
        decisions = decided(queue("q"), pod_group("g"), nodes, busy, gang("g", 1), configuration=SPREAD)
        assert placements(decisions) == {"g-0": best}


def test_a_node_that_holds_more_than_it_has_takes_nobody() -> None:
    """Not even a pod that asks for nothing of what is short there, and its message says so."""
    crowd = [pod(f"r{i}").gpu(5).running_on("n1").build() for i in range(2)]
    member = pod("g-0").cpu("1").of_group("g").build()
    assert placements(one(node("n1"), node("n2"), crowd, member)) == {"g-0": "n2"}
    reported = reasons(one(node("n1"), crowd, member))["g"]
    assert "1 node(s) didn't have enough resources: GPUs." in reported


def test_pods_without_gpus_prefer_nodes_without_gpus() -> None:
    member = pod("g-0").cpu("1").of_group("g").build()
    assert placements(one(node("a"), node("z", gpus=0), member)) == {"g-0": "z"}


def test_free_resources_are_preferred_to_releasing_ones() -> None:
    leaving = pod("old").gpu(8).running_on("n1").being_deleted_at(NOW).build()
    assert placements(one(node("n1"), node("n2"), leaving, gang("g", 1))) == {"g-0": "n2"}


def test_node_selector_taints_and_cordons_are_respected() -> None:
    cordoned = node("c")
    cordoned = msgspec.structs.replace(cordoned, spec=msgspec.structs.replace(cordoned.spec, unschedulable=True))
    nodes = [cordoned, tainted(node("t"), "dedicated", "ml"), node("w", zone="other"), node("z", zone="mine")]
    picky = pod("g-0").gpu(1).of_group("g").only_on("zone", "mine").build()
    assert placements(one(nodes, picky)) == {"g-0": "z"}
    tolerant = pod("g-0").gpu(1).of_group("g").tolerates("dedicated", "ml").build()
    assert placements(one(nodes[:2], tolerant)) == {"g-0": "t"}


def test_reasons_name_every_objection_with_its_number_of_nodes() -> None:
    nodes = [tainted(node(f"t{i}"), "dedicated", "ml") for i in range(3)] + [node("small", gpus=0)]
    reported = reasons(one(nodes, gang("g", 1)))["g"]
    assert "3 node(s) had untolerated taint {dedicated: ml}." in reported
    assert "1 node(s) didn't have enough resources: GPUs." in reported


def test_required_node_affinity_is_respected() -> None:
    term = NodeSelectorTerm(
        matchExpressions=(NodeSelectorRequirement(key="zone", operator="NotIn", values=("a", "b")),)
    )
    affinity = Affinity(
        nodeAffinity=NodeAffinity(
            requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=(term,))
        )
    )
    base = gang("g", 1)[0]
    member = msgspec.structs.replace(base, spec=msgspec.structs.replace(base.spec, affinity=affinity))
    assert placements(one(node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="c"), member)) == {"g-0": "n3"}


def test_a_node_takes_no_more_pods_than_it_allows() -> None:
    decisions = one(node("n1", pods=1), gang("g", 2))
    assert len(placements(decisions)) == 1
    assert "node(s) pod number exceeded" in reasons(decisions)["g"]


def test_extended_resources_count_like_any_other() -> None:
    bare = node("n1")
    allocatable = {**bare.status.allocatable, "example.com/fpga": "1"}
    equipped = msgspec.structs.replace(bare, status=msgspec.structs.replace(bare.status, allocatable=allocatable))
    taken = pod("taken").asks("example.com/fpga", "1").running_on("n1").build()
    member = pod("g-0").asks("example.com/fpga", "1").of_group("g").build()
    assert placements(one(equipped, member)) == {"g-0": "n1"}
    reported = reasons(one(equipped, taken, member))["g"]
    assert "didn't have enough resources: example.com/fpga" in reported


def test_pods_of_other_schedulers_hold_their_resources() -> None:
    other = pod("other").gpu(8).running_on("n1")
    foreign = msgspec.structs.replace(
        other.build(), spec=msgspec.structs.replace(other.build().spec, schedulerName="x")
    )
    assert placements(one(node("n1"), foreign, gang("g", 1))) == {}
