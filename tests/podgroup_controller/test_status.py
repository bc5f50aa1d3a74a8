"""What a PodGroup says about its gang."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bosket.api import keys
from bosket.api.core import Container, Node, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements
from bosket.api.gang import has_minimum
from bosket.api.kai import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus, SubGroup
from bosket.api.object import ObjectMeta
from bosket.api.resource_k8s import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from bosket.services.podgroup.status import Member, status_of
from bosket.services.podgroup.usage import allocated, requested

SCHEDULED = (PodCondition(type="PodScheduled", status="True"),)


def pod(phase: str = "Pending", node: str = "", subgroup: str = "", annotations: dict[str, str] | None = None) -> Pod:
    resources = ResourceRequirements(requests={"cpu": "500m", "nvidia.com/gpu": "2"})
    return Pod(
        metadata=ObjectMeta(
            name="p", labels={keys.SUBGROUP_LABEL: subgroup} if subgroup else {}, annotations=annotations or {}
        ),
        spec=PodSpec(containers=(Container(name="c", image="i", resources=resources),), nodeName=node),
        status=PodStatus(phase=phase, conditions=SCHEDULED if node else ()),
    )


def status(*pods: Pod, spec: PodGroupSpec | None = None, preemptible: bool = True) -> PodGroupStatus:
    group = PodGroup(spec=spec or PodGroupSpec(minMember=2))
    members = [Member(each, requested(each, ()), allocated(each, (), None)) for each in pods]
    return status_of(group, members, preemptible=preemptible, now=0.0)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ((), "Unknown"),
        ((pod(), pod()), "Pending"),
        ((pod(node="n"), pod()), "Pending"),
        ((pod(node="n"), pod(node="n")), "Scheduled"),
        ((pod("Running", "n"), pod(node="n")), "Scheduled"),
        ((pod("Running", "n"), pod("Running", "n"), pod()), "Running"),
        ((pod("Running", "n"), pod("Succeeded", "n")), "Running"),
        ((pod("Succeeded", "n"), pod("Succeeded", "n")), "Succeeded"),
        ((pod("Failed", "n"), pod("Succeeded", "n")), "Failed"),
        ((pod("Failed", "n"), pod("Running", "n")), "Pending"),
    ],
)
def test_the_phase_tells_where_the_gang_is(pods: tuple[Pod, ...], phase: str) -> None:
    assert status(*pods).phase == phase


def test_conditions_count_pods_and_keep_the_time_since_when_they_hold() -> None:
    before = status(pod(node="n"), pod())
    scheduled, running = before.conditions
    assert (scheduled.type, scheduled.status, scheduled.reason) == ("Scheduled", "False", "BelowMinimum")
    assert scheduled.message == "1 of 2 pods have a node; 2 must"
    assert running.message == "0 of 2 pods run or have succeeded; 2 must"
    others = PodGroupCondition(type="Others", status="True")
    group = PodGroup(
        spec=PodGroupSpec(minMember=2), status=msgspec.structs.replace(before, conditions=(*before.conditions, others))
    )
    members = [Member(pod(node="n"), {}, {}), Member(pod(node="n"), {}, {})]
    later = status_of(group, members, preemptible=True, now=100.0)
    assert (later.conditions[0].status, later.conditions[0].lastTransitionTime) == ("True", "1970-01-01T00:01:40Z")
    assert later.conditions[1].lastTransitionTime == running.lastTransitionTime
    assert later.conditions[2] == others


def test_resources_are_those_of_containers_that_wait_run_or_have_a_place() -> None:
    found = status(pod(), pod(node="n"), pod("Running", "n"), pod("Succeeded", "n")).resourcesStatus
    assert found.requested == {"cpu": "1500m", "nvidia.com/gpu": "6"}
    assert found.allocated == {"cpu": "1", "nvidia.com/gpu": "4"}
    assert found.allocatedNonPreemptible == {}
    firm = status(pod("Running", "n"), preemptible=False).resourcesStatus
    assert firm.allocatedNonPreemptible == firm.allocated != {}


@pytest.mark.parametrize(
    ("annotations", "asked", "held"),
    [
        ({"gpu-fraction": "0.25"}, {"nvidia.com/gpu": "250m"}, {"nvidia.com/gpu": "250m"}),
        (
            {"gpu-fraction": "0.3", "gpu-fraction-num-devices": "2"},
            {"nvidia.com/gpu": "600m"},
            {"nvidia.com/gpu": "600m"},
        ),
        ({"gpu-memory": "1000"}, {"run.ai/gpu.memory": "1k"}, {"nvidia.com/gpu": "250m"}),
        ({"gpu-fraction": "NaN"}, {}, {}),
    ],
)
def test_shares_of_gpus_count(annotations: dict[str, str], asked: dict[str, str], held: dict[str, str]) -> None:
    """Of all devices of a pod, where KAI holds the pod to have a share of one."""
    sharing = pod("Running", "n", annotations={**annotations, keys.RECEIVED_RESOURCE_TYPE_ANNOTATION: "Fraction"})
    bare = msgspec.structs.replace(sharing, spec=PodSpec(nodeName="n"))
    node = Node(metadata=ObjectMeta(name="n", labels={keys.NODE_GPU_MEMORY_LABEL: "4000"}))
    assert requested(bare, ()) == asked
    assert allocated(bare, (), node) == held


def test_claims_count_by_class_where_it_is_one_of_gpus() -> None:
    requests = (
        DeviceRequest(name="a", exactly=ExactDeviceRequest(deviceClassName="gpu.example.com", count=2)),
        DeviceRequest(name="b", exactly=ExactDeviceRequest(deviceClassName="nic.example.com", count=1)),
    )
    claim = ResourceClaim(spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))
    bare = Pod(status=PodStatus(phase="Running"))
    assert requested(bare, (claim,)) == allocated(bare, (claim,), None) == {"gpu.example.com": "2"}


TREE = PodGroupSpec(
    minSubGroup=1,
    subGroups=(
        SubGroup(name="head", minMember=1),
        SubGroup(name="workers", minSubGroup=1),
        SubGroup(name="w0", parent="workers", minMember=2),
        SubGroup(name="w1", parent="workers", minMember=2),
    ),
)


@pytest.mark.parametrize(
    ("pods", "enough"),
    [({}, False), ({"head": 1}, True), ({"w0": 1, "w1": 1}, False), ({"w1": 2}, True), ({"": 9}, False)],
)
def test_the_trees_own_minimum_decides(pods: dict[str, int], enough: bool) -> None:
    assert has_minimum(TREE, pods) is enough


def test_a_circle_of_parents_is_never_complete_and_ends() -> None:
    circle = PodGroupSpec(subGroups=(SubGroup(name="a", parent="b"), SubGroup(name="b", parent="a")), minSubGroup=1)
    assert not has_minimum(circle, {"a": 9})


def test_a_tree_may_be_deeper_than_the_stack_of_calls() -> None:
    chain = tuple(SubGroup(name=f"s{n}", parent=f"s{n - 1}" if n else None) for n in range(20_000))
    deep = PodGroupSpec(subGroups=(*chain, SubGroup(name="leaf", parent="s19999", minMember=2)))
    assert has_minimum(deep, {"leaf": 2})
    assert not has_minimum(deep, {"leaf": 1})


@given(
    st.dictionaries(st.sampled_from(["head", "w0", "w1", ""]), st.integers(0, 4)), st.sampled_from(["head", "w0", "w1"])
)
def test_more_pods_never_make_a_gang_incomplete(pods: dict[str, int], more: str) -> None:
    if has_minimum(TREE, pods):
        assert has_minimum(TREE, {**pods, more: pods.get(more, 0) + 1})
