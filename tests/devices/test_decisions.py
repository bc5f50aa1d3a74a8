"""Claims in decisions: who gets which device, who waits and why, and what is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodResourceClaim
from bosket.api.core.node import Node
from bosket.api.core.pod import Pod
from bosket.api.kai import BindRequest, BindRequestSpec, ResourceClaimAllocation
from bosket.api.keys import QUEUE_LABEL
from bosket.api.object import KubeObject, ObjectKey, ObjectMeta
from bosket.api.resource_k8s import (
    DeviceRequest,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.resource import GPU
from bosket.scheduler.recording.recorded import read
from bosket.scheduler.recording.writer import take, zipped
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.scheduler.state.options import StateOptions
from bosket.testing.build import PodBuilder, pod, pod_group, priority_class, queue
from bosket.testing.build import node as node_with_gpus
from bosket.testing.cluster import (
    NOW,
    configured,
    decided,
    evictions,
    pipelines,
    placements,
    reasons,
    snapshot_of,
    state_of,
)
from bosket.testing.device import (
    device,
    device_class,
    device_request,
    device_slice,
    made_claims,
    named_claims,
    resource_claim,
)
from tests.present import present

OURS = {QUEUE_LABEL: "q"}
TWO = [device("d0"), device("d1")]


def node(name: str, **labels: Any) -> Node:
    """A node without GPUs of its own."""
    return node_with_gpus(name, gpus=0, **labels)


def member(name: str, *claims: str, group: str = "g", on: str = "", leaving: bool = False, **asks: str) -> Pod:
    """A pod of the group with claims by name."""
    made = pod(name).cpu("1").of_group(group).with_spec(resourceClaims=named_claims(*claims))
    for resource, amount in asks.items():
        made = made.asks(f"example.com/{resource}", amount)
    made = made.running_on(on) if on else made
    return with_uid((made.being_deleted_at(NOW) if leaving else made).build())


def own(name: str, claim: str, group: str = "g", on: str = "") -> Pod:
    """A pod of the group with a claim that was made for it."""
    spec, status = made_claims(device=claim)
    made = pod(name).cpu("1").of_group(group).with_spec(resourceClaims=spec)
    built = with_uid((made.running_on(on) if on else made).build())
    return replace(built, status=replace(built.status, resourceClaimStatuses=status))


def with_uid(built: Pod) -> Pod:
    return replace(built, metadata=replace(built.metadata, uid=built.metadata.name))


def claim(name: str, *requests: DeviceRequest, **fields: Any) -> ResourceClaim:
    return resource_claim(name, *requests, labels=OURS, **fields)


def cluster(*objects: KubeObject) -> list[KubeObject]:
    return [queue("q"), pod_group("g"), device_class(), *objects]


def given(decisions: Decisions) -> dict[str, list[str]]:
    """Pod → devices of its claims, as the bind request has them."""
    return {
        bind.task.key.name: [
            f"{each.pool}/{each.device}" for claim in bind.claims for each in present(claim.allocation).devices.results
        ]
        for bind in decisions.binds
    }


def test_a_pod_goes_where_its_claim_can_be_allocated() -> None:
    made = decided(cluster(node("a"), node("b"), device_slice("b", *TWO), claim("c"), member("g-0", "c")))
    assert placements(made) == {"g-0": "b"}
    assert given(made) == {"g-0": ["b/d0"]}
    (bind,) = made.binds
    allocation = bind.claims[0].allocation
    assert bind.claims[0].name == "c"
    assert present(present(allocation).nodeSelector).nodeSelectorTerms[0].matchFields[0].values == ("b",)


def test_pods_never_get_the_same_device() -> None:
    pods = [own(f"g-{number}", f"c{number}") for number in range(3)]
    claims = [resource_claim(f"c{number}", owner=f"g-{number}") for number in range(3)]
    group = pod_group("g", min_member=1)
    made = decided([queue("q"), group, device_class(), node("a"), device_slice("a", *TWO), *claims, *pods])
    assert given(made) == {"g-0": ["a/d0"], "g-1": ["a/d1"]}
    assert [task.key.name for each in made.waiting for task in each.tasks] == ["g-2"]


def test_pods_share_a_named_claim_where_its_devices_are() -> None:
    nodes = [node("a"), node("b"), device_slice("a", *TWO), device_slice("b", *TWO)]
    made = decided(
        [
            queue("q"),
            pod_group("g", min_member=2),
            device_class(),
            *nodes,
            claim("c"),
            member("g-0", "c"),
            member("g-1", "c"),
        ]
    )
    assert given(made) == {"g-0": ["a/d0"], "g-1": ["a/d0"]}
    assert set(placements(made).values()) == {"a"}


def test_a_gang_gets_all_of_its_devices_or_none() -> None:
    pods = [own(f"g-{number}", f"c{number}") for number in range(3)]
    claims = [resource_claim(f"c{number}", owner=f"g-{number}") for number in range(3)]
    group = pod_group("g", min_member=3)
    made = decided([queue("q"), group, device_class(), node("a"), device_slice("a", *TWO), *claims, *pods])
    assert not made.binds


def test_devices_for_all_nodes_and_for_some_are_reached_by_those_nodes_alone() -> None:
    zone = NodeSelectorRequirement(key="zone", operator="In", values=("z",))
    some = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(zone,)),))
    nodes = [node("a"), node("b", zone="z")]
    here = device_slice("", device("d0"), pool="network", nodeSelector=some)
    made = decided(cluster(*nodes, here, claim("c"), member("g-0", "c")))
    assert placements(made) == {"g-0": "b"}
    assert present(made.binds[0].claims[0].allocation).nodeSelector == some
    everywhere = device_slice("", device("d0"), pool="network", allNodes=True)
    made = decided(cluster(*nodes, everywhere, claim("c"), member("g-0", "c")))
    assert present(made.binds[0].claims[0].allocation).nodeSelector is None
    each = device("d0", fields={"nodeName": "b"})
    made = decided(
        cluster(*nodes, device_slice("", each, pool="p", perDeviceNodeSelection=True), claim("c"), member("g-0", "c"))
    )
    assert placements(made) == {"g-0": "b"}


def test_one_device_of_the_network_is_given_to_one_node_only() -> None:
    everywhere = device_slice("", device("d0"), pool="network", allNodes=True)
    pods = [own(f"g-{number}", f"c{number}") for number in range(2)]
    claims = [resource_claim(f"c{number}", owner=f"g-{number}") for number in range(2)]
    group = pod_group("g", min_member=1)
    made = decided([queue("q"), group, device_class(), node("a"), node("b"), everywhere, *claims, *pods])
    assert list(given(made).values()) == [["network/d0"]]


def test_devices_of_a_pod_that_is_going_are_waited_for() -> None:
    running = [pod_group("old"), member("old-0", "held", group="old", on="a", leaving=True)]
    held = claim("held", devices=("d0",), pool="a", users=("old-0",))
    made = decided(cluster(node("a"), device_slice("a", device("d0")), *running, held, claim("c"), member("g-0", "c")))
    assert pipelines(made) == {"g-0": "a"}
    assert not made.binds


def test_a_free_device_goes_before_one_that_must_be_waited_for() -> None:
    running = [pod_group("old"), member("old-0", "held", group="old", on="a", leaving=True)]
    held = claim("held", devices=("d0",), pool="a", users=("old-0",))
    made = decided(cluster(node("a"), device_slice("a", *TWO), *running, held, claim("c"), member("g-0", "c")))
    assert given(made) == {"g-0": ["a/d1"]}


def test_what_a_bind_request_promises_is_taken() -> None:
    first, second = claim("first"), claim("second")
    before = decided(cluster(node("a"), device_slice("a", *TWO), first, member("g-0", "first")))
    (bind,) = before.binds
    request = BindRequest(
        metadata=ObjectMeta(name="g-0", namespace="default"),
        spec=BindRequestSpec(podName="g-0", selectedNode="a", resourceClaimAllocations=bind.claims),
    )
    assert isinstance(bind.claims[0], ResourceClaimAllocation)
    other = [pod_group("h"), member("h-0", "second", group="h")]
    made = decided(cluster(node("a"), device_slice("a", *TWO), first, second, request, member("g-0", "first"), *other))
    assert given(made) == {"h-0": ["a/d1"]}


def test_what_was_promised_is_taken_until_the_claim_itself_says_so() -> None:
    """The bind request is gone and the pod has its node before the claim is seen to be allocated."""
    state = state_of(cluster(node("a"), device_slice("a", *TWO), claim("first"), member("g-0", "first")))
    (bind,) = decide(state.snapshot(NOW), Configuration()).binds
    request = BindRequest(
        metadata=ObjectMeta(name="g-0", namespace="default"),
        spec=BindRequestSpec(podName="g-0", selectedNode="a", resourceClaimAllocations=bind.claims),
    )
    state.put(request)
    state.put(member("g-0", "first", on="a"))
    state.drop(request)
    for each in (pod_group("h"), claim("second"), member("h-0", "second", group="h")):
        state.put(each)
    assert given(decide(state.snapshot(NOW), Configuration())) == {"h-0": ["a/d1"]}
    state.put(claim("first", devices=("d0",), pool="a", users=("g-0",)))
    assert given(decide(state.snapshot(NOW), Configuration())) == {"h-0": ["a/d1"]}
    state.drop(member("g-0", "first"))
    state.put(claim("first"))
    assert given(decide(state.snapshot(NOW), Configuration())) == {"h-0": ["a/d0"]}


def test_what_was_promised_is_free_when_the_bind_fails() -> None:
    state = state_of(cluster(node("a"), device_slice("a", device("d0")), claim("first"), member("g-0", "first")))
    (bind,) = decide(state.snapshot(NOW), Configuration()).binds
    request = BindRequest(
        metadata=ObjectMeta(name="g-0", namespace="default"),
        spec=BindRequestSpec(podName="g-0", selectedNode="a", resourceClaimAllocations=bind.claims),
    )
    state.put(request)
    assert not decide(state.snapshot(NOW), Configuration()).binds
    state.drop(request)
    assert given(decide(state.snapshot(NOW), Configuration())) == {"g-0": ["a/d0"]}


def test_preemption_frees_devices() -> None:
    low = [pod_group("low", priority="low"), member("low-0", "held", group="low", on="a")]
    held = claim("held", devices=("d0",), pool="a", users=("low-0",))
    classes = [priority_class("low", 10), priority_class("high", 90)]
    high = [pod_group("high", priority="high"), member("high-0", "c", group="high")]
    slices = [node("a"), device_slice("a", device("d0"))]
    made = decided([queue("q"), device_class(), *classes, *slices, *low, held, claim("c"), *high])
    assert evictions(made) == {"low-0": "high"}
    assert pipelines(made) == {"high-0": "a"}


def test_claims_count_as_gpus_of_the_queue_and_of_the_node() -> None:
    slices = [node("a"), device_slice("a", *TWO)]
    running = [pod_group("r"), member("r-0", "held", group="r", on="a"), member("r-1", "held", group="r", on="a")]
    held = claim("held", devices=("d0",), pool="a", users=("r-0", "r-1"))
    snapshot = snapshot_of(cluster(*slices, *running, held))
    assert snapshot.nodes.allocatable[GPU].tolist() == [2.0]
    assert snapshot.nodes.idle[GPU].tolist() == [1.0], "a device that two pods have counts once"
    assert snapshot.use["q"].allocated[0] == 2.0, "each pod asks for a GPU"
    limited = [queue("q", limit=1), pod_group("g", min_member=2), device_class(), *slices]
    pods = [own(f"g-{number}", f"c{number}") for number in range(2)]
    claims = [resource_claim(f"c{number}", owner=f"g-{number}") for number in range(2)]
    made = decided([*limited, *claims, *pods])
    assert not made.binds
    other_class = [resource_claim(f"c{number}", device_request(of="nic"), owner=f"g-{number}") for number in range(2)]
    made = decided([*limited, device_class("nic"), *other_class, *pods])
    assert len(made.binds) == 2, "what is no GPU by its class's name is nobody's quota"


def test_slices_that_come_and_go_change_what_a_node_has() -> None:
    state = state_of(cluster(node("a"), claim("c"), member("g-0", "c")))
    assert not decide(state.snapshot(NOW), Configuration()).binds
    offered = device_slice("a", *TWO)
    state.put(offered)
    snapshot = state.snapshot(NOW)
    assert snapshot.nodes.allocatable[GPU].tolist() == [2.0]
    assert given(decide(snapshot, Configuration())) == {"g-0": ["a/d0"]}
    assert state.snapshot(NOW) is snapshot, "nothing changed"
    state.drop(offered)
    snapshot = state.snapshot(NOW)
    assert snapshot.nodes.allocatable[GPU].tolist() == [0.0]
    assert not decide(snapshot, Configuration()).binds


def test_a_rule_taints_devices_while_it_is_there() -> None:
    def rule(**selector: str) -> DeviceTaintRule:
        spec = DeviceTaintRuleSpec(
            deviceSelector=DeviceTaintSelector(**selector), taint=DeviceTaint(key="sick", effect="NoSchedule")
        )
        return DeviceTaintRule(metadata=ObjectMeta(name="rule"), spec=spec)

    state = state_of(cluster(node("a"), device_slice("a", *TWO), claim("c"), member("g-0", "c")))
    for selector, got in (
        ({"pool": "a", "device": "d0"}, {"g-0": ["a/d1"]}),
        ({"driver": "other.example.com"}, {"g-0": ["a/d0"]}),
        ({}, {}),
    ):
        state.put(rule(**selector))
        assert given(decide(state.snapshot(NOW), Configuration())) == got
    state.drop(rule())
    assert given(decide(state.snapshot(NOW), Configuration())) == {"g-0": ["a/d0"]}


def test_a_claim_that_comes_later_lets_its_pod_go() -> None:
    state = state_of(cluster(node("a"), device_slice("a", *TWO), member("g-0", "c")))
    assert "ResourceClaim default/c was not found" in reasons(decide(state.snapshot(NOW), Configuration()))["g"]
    state.put(claim("c"))
    assert given(decide(state.snapshot(NOW), Configuration())) == {"g-0": ["a/d0"]}
    state.drop(claim("c"))
    assert not decide(state.snapshot(NOW), Configuration()).binds


ASKED = "ResourceClaim default/c: spec.devices.requests[0].exactly"
USERS = tuple(f"u{number}" for number in range(256))


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([], "ResourceClaim default/c was not found"),
        ([resource_claim("c")], "is a shared GPU claim but does not have a queue label (kai.scheduler/queue)"),
        ([resource_claim("c", labels={QUEUE_LABEL: "x"})], "(expected queue: q, claim queue label: x)"),
        ([claim("c", device_request(of="none"))], f'{ASKED}.deviceClassName: DeviceClass "none"'),
        ([claim("c", device_request("r", "1 +"))], f"{ASKED}.selectors[0].cel.expression"),
        ([claim("c", devices=("d0",), pool="a", users=USERS)], "has reached its maximum number of consumers (256)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_object_and_field_and_others_go_on(
    objects: Sequence[ResourceClaim], text: str
) -> None:
    other = [pod_group("fine"), member("fine-0", "good", group="fine"), claim("good")]
    made = decided(cluster(node("a"), device_slice("a", *TWO), *objects, member("g-0", "c"), *other))
    assert text in reasons(made)["g"]
    assert "fine-0" in placements(made)


def test_a_pod_whose_claim_is_not_made_yet_waits() -> None:
    spec, _ = made_claims(device="x")
    waiting = pod("g-0").cpu("1").of_group("g").with_spec(resourceClaims=spec).build()
    made = decided(cluster(node("a"), device_slice("a", *TWO), waiting))
    assert "spec.resourceClaims[0] (device) waits for a ResourceClaim to be made from template" in reasons(made)["g"]


def test_a_malformed_slice_is_left_out_and_told_of() -> None:
    told: list[Any] = []
    state = ClusterState(report=told.append)
    bad = device_slice("a", device("d0", capacity={"memory": "much"}))
    for each in cluster(node("a"), node("b"), bad, device_slice("b", device("d0")), claim("c"), member("g-0", "c")):
        state.put(each)
    assert placements(decide(state.snapshot(NOW), Configuration())) == {"g-0": "b"}
    assert any("devices of pool gpu.example.com/a are not used: ResourceSlice" in each for each in told)


# Extended resources

WITH_RESOURCE = "example.com/gpu"


def test_an_extended_resource_that_nodes_lack_is_claimed_as_devices() -> None:
    serving = device_class("backed", extended=WITH_RESOURCE)
    made = decided(cluster(node("a"), device_slice("a", *TWO), serving, member("g-0", gpu="2")))
    (bind,) = made.binds
    claim = bind.extended_claim
    assert [each.device for each in present(present(claim).allocation).devices.results] == ["d0", "d1"]
    (request,) = present(claim).deviceRequests
    assert (present(request.exactly).deviceClassName, present(request.exactly).count) == ("backed", 2)
    assert [(each.containerName, each.requestName) for each in present(claim).containerMappings] == [
        ("main", request.name)
    ]
    too_many = decided(cluster(node("a"), device_slice("a", *TWO), serving, member("g-0", gpu="3")))
    assert not too_many.binds


def test_a_node_that_has_the_resource_itself_needs_no_devices() -> None:
    serving = device_class("backed", extended=WITH_RESOURCE)
    has = replace(
        node("a"), status=replace(node("a").status, allocatable={**node("a").status.allocatable, WITH_RESOURCE: "1"})
    )
    made = decided(cluster(has, serving, member("g-0", gpu="1")))
    assert [bind.extended_claim for bind in made.binds] == [None]
    assert not decided(cluster(has, serving, member("g-0", gpu="2"))).binds
    taken = [pod_group("old"), member("old-0", group="old", on="a", gpu="1")]
    assert not decided(cluster(has, serving, *taken, member("g-0", gpu="1"))).binds


def test_reserved_for_is_not_mistaken_for_the_pod_itself() -> None:
    reserved = claim("c", devices=("d0",), pool="a", users=("g-0",))
    assert isinstance(reserved.status.reservedFor[0], ResourceClaimConsumerReference)
    made = decided(cluster(node("a"), device_slice("a", device("d0")), reserved, member("g-0", "c")))
    assert given(made) == {"g-0": ["a/d0"]}


def test_the_order_in_which_objects_are_seen_changes_nothing() -> None:
    pods = [own(f"g-{number}", f"c{number}") for number in range(4)]
    claims = [resource_claim(f"c{number}", owner=f"g-{number}") for number in range(4)]
    slices = [device_slice(name, *TWO) for name in "ab"]
    group = pod_group("g", min_member=1)
    objects = [queue("q"), group, device_class(), node("a"), node("b"), *slices, *claims, *pods]
    assert given(decided(objects)) == given(decided(objects[::-1])) != {}


def test_claims_survive_a_recording() -> None:
    objects = cluster(node("a"), device_slice("a", *TWO), claim("c"), member("g-0", "c"))
    state = state_of(objects)
    file = zipped(take(state, StateOptions(), Configuration(), NOW))
    again = read(file, "file").snapshot(NOW)
    assert given(decide(again, Configuration())) == {"g-0": ["a/d0"]}
    assert ObjectKey("default", "c") in again.inventory.claims


def test_gpus_that_are_claimed_as_devices_are_for_claims_only() -> None:
    shares = pod("g-0").of_group("g").cpu("1")
    sharing = with_uid(replace_annotations(shares, {"gpu-fraction": "0.5"}))
    offered = [node("a"), device_slice("a", *TWO)]
    assert not decided(cluster(*offered, sharing)).binds
    whole = with_uid(pod("g-0").of_group("g").gpu(1).build())
    made = decided(cluster(*offered, whole))
    assert not made.binds
    assert "node(s) have GPUs for resource claims only" in reasons(made)["g"]
    backed = device_class("backed", extended="nvidia.com/gpu")
    made = decided(cluster(*offered, backed, whole))
    assert [each.device for each in present(present(made.binds[0].extended_claim).allocation).devices.results] == ["d0"]
    assert decided(cluster(*offered, node_with_gpus("b", gpus=1), whole)).binds[0].node == "b"


def replace_annotations(builder: PodBuilder, annotations: Mapping[str, str]) -> Pod:
    built = builder.build()
    return replace(built, metadata=replace(built.metadata, annotations={**built.metadata.annotations, **annotations}))


def test_devices_of_pods_of_other_schedulers_are_theirs() -> None:
    theirs = member("theirs-0", "held", group="theirs", on="a")
    theirs = replace(theirs, spec=replace(theirs.spec, schedulerName="default-scheduler"))
    held = claim("held", devices=("d0",), pool="a", users=("theirs-0",))
    objects = cluster(node("a"), device_slice("a", *TWO), theirs, held, claim("c"), member("g-0", "c"))
    snapshot = snapshot_of(objects)
    assert (snapshot.nodes.idle[GPU, 0], snapshot.nodes.foreign[GPU, 0]) == (1.0, 1.0)
    assert given(decided(objects)) == {"g-0": ["a/d1"]}


def test_pods_that_each_name_a_claim_of_their_own_are_of_one_class_until_two_name_the_same() -> None:
    """Which claim it is makes no difference to where they can go; with a second user it does."""

    def naming(name: str, claim: str, group: str = "g") -> Pod:
        spec = (PodResourceClaim(name="device", resourceClaimName=claim),)
        return with_uid(pod(name).cpu("1").of_group(group).with_spec(resourceClaims=spec).build())

    pods = [naming(f"g-{number}", f"c{number}") for number in range(3)]
    claims = [claim(f"c{number}") for number in range(3)]
    state = state_of(cluster(node("a"), device_slice("a", *TWO), *pods, *claims))

    def classes() -> dict[str, int]:
        snapshot = state.snapshot(NOW)
        return {task.pod.metadata.name: task.pod_class.index for job in snapshot.jobs.values() for task in job.tasks}

    assert len(set(classes().values())) == 1
    second = naming("h-0", "c1", group="h")
    for each in (pod_group("h"), second):
        state.put(each)
    assert classes()["g-0"] == classes()["g-2"] != classes()["g-1"] == classes()["h-0"]
    state.drop(second)
    assert len(set(classes().values())) == 1


def test_a_claim_that_somebody_else_has_reserved_is_not_the_pods_own() -> None:
    """It stays where it is allocated, also if the other user isn't known here: its pod can't be moved elsewhere."""

    def moved(*users: str) -> dict[str, str]:
        allocated = claim("c", devices=("d0",), pool="n1", users=users)
        here = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("n1",))
        nodes = NodeSelector(nodeSelectorTerms=(NodeSelectorTerm(matchExpressions=(here,)),))
        allocation = replace(present(allocated.status.allocation), nodeSelector=nodes)
        tied = replace(allocated, status=replace(allocated.status, allocation=allocation))
        slices = [device_slice("n1", *TWO), device_slice("n2", *TWO)]
        made = decided(
            [node_with_gpus("n1", gpus=0, cpu="3"), node_with_gpus("n2", gpus=0, cpu="1")], slices, device_class(),
            [queue("q"), priority_class("low", 10), priority_class("high", 90)],
            [pod_group("mover", priority="low"), member("mover-0", "c", group="mover", on="n1"), tied],
            [pod_group("big", priority="high"), pod("big-0").cpu("3").of_group("big").build()],
            configuration=configured("allocate", "consolidation"),
        )  # fmt: skip
        return evictions(made)

    assert moved("mover-0") == {"mover-0": "big"}
    assert moved("mover-0", "somebody") == {}


def test_a_pod_that_can_not_be_counted_uses_no_claims() -> None:
    state = state_of(cluster(node("a"), device_slice("a", *TWO), claim("c")))
    bad = pod("bad").cpu("x").of_group("g").with_spec(resourceClaims=named_claims("c")).build()
    for each in (bad, member("g-0", "c")):
        state.put(each)
    (task,) = (task for job in state.snapshot(NOW).jobs.values() for task in job.tasks)
    assert present(task.pod_class.device_needs).claims[0].key is None
