"""KAI's objects as Structs: what absence means, what is written, what can be read."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bosket.api import kai
from bosket.api.quantity import Quantity
from tests.api.crd_judge import refusals

json_of = msgspec.json.encode


def read(kind: type[Any], document: Any) -> Any:
    return msgspec.json.decode(json_of(document), type=kind)


def test_an_absent_share_of_a_queue_is_nothing_and_an_absent_limit_is_none() -> None:
    """Other than in KAI, which reads 0: a limit of 0 that is given lets nothing run."""
    queue = read(kai.Queue, {"spec": {"resources": {"gpu": {"quota": 8}, "memory": {"limit": 0}}}})
    assert queue.spec.resources.gpu == kai.QueueResource(quota=8, overQuotaWeight=0, limit=None)
    assert (queue.spec.resources.gpu.most, queue.spec.resources.memory.most) == (kai.UNLIMITED, 0)
    assert queue.spec.resources.cpu == kai.QueueResource()
    assert json_of(queue.spec.resources.memory) == b'{"limit":0.0}'


def test_a_queue_that_only_another_definition_lets_through_can_still_be_read() -> None:
    queue = read(kai.Queue, {"spec": {"resources": {"gpu": {"quota": -5}}, "reclaimMinRuntime": "soon"}})
    assert queue.spec.resources.gpu.quota == -5
    assert queue.spec.reclaimMinRuntime == "soon"


def test_a_minimum_of_none_differs_from_an_absent_one() -> None:
    elastic = read(kai.PodGroup, {"spec": {"minMember": 0}})
    assert elastic.spec.minMember == 0
    assert read(kai.PodGroup, {"spec": {}}).spec.minMember is None
    assert msgspec.to_builtins(elastic)["spec"] == {"minMember": 0}


def test_fields_of_a_newer_version_are_ignored_when_reading() -> None:
    assert read(kai.PodGroup, {"spec": {"queue": "a", "invented": {"later": 1}}}).spec.queue == "a"


def test_a_wrong_type_is_an_error_that_names_the_field() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.minMember"):
        read(kai.PodGroup, {"spec": {"minMember": "three"}})


def test_the_section_named_by_a_python_keyword_keeps_its_name_on_the_wire() -> None:
    config = kai.Config(spec=kai.ConfigSpec(global_=kai.GlobalConfig(schedulerName="mine")))
    assert msgspec.to_builtins(config) == {"spec": {"global": {"schedulerName": "mine"}}}
    assert read(kai.Config, {"spec": {"global": {"jsonLog": True}}}).spec.global_.jsonLog is True


def test_a_condition_is_written_whole_because_api_servers_want_it_so() -> None:
    condition = read(
        kai.SchedulingShard,
        {
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": "ready", "message": "", "lastTransitionTime": "t"}
                ]
            }
        },
    ).status.conditions[0]
    assert set(msgspec.to_builtins(condition)) == {"type", "status", "reason", "message", "lastTransitionTime"}


# --- round trips

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
text = st.text(max_size=8)
counts = st.none() | st.integers(0, 2**31 - 1)
amounts = st.just(-1.0) | st.floats(0, 1e15).filter(lambda amount: not (0 < amount < 1e-300) and math.isfinite(amount))
durations = st.none() | st.sampled_from(["0", "0s", "10m", "1h30m", "-1s", "1.5h", "100ms"])
quantities = st.integers(0, 10**9) | st.sampled_from(["100m", "1Gi", "1.5", "2e3", "500m"])
resource_lists: st.SearchStrategy[dict[str, Quantity]] = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), quantities
)
shares = st.builds(kai.QueueResource, quota=amounts, overQuotaWeight=st.floats(0, 1e9), limit=amounts)
queues = st.builds(
    kai.Queue,
    spec=st.builds(
        kai.QueueSpec,
        displayName=text,
        parentQueue=names | st.just(""),
        priority=st.none() | st.integers(-(2**31), 2**31),
        preemptMinRuntime=durations,
        reclaimMinRuntime=durations,
        resources=st.none() | st.builds(kai.QueueResources, gpu=shares, cpu=shares, memory=shares),
    ),
    status=st.builds(
        kai.QueueStatus,
        childQueues=st.lists(names, max_size=3).map(tuple),
        allocated=resource_lists,
        requested=resource_lists,
    ),
)
constraints = st.none() | st.builds(
    kai.TopologyConstraint, topology=text, requiredTopologyLevel=text, preferredTopologyLevel=text
)
pods_or_groups = st.tuples(counts, st.none()) | st.tuples(st.none(), counts)


@st.composite
def subgroups(draw: st.DrawFn) -> kai.SubGroup:
    min_member, min_subgroup = draw(pods_or_groups)
    return kai.SubGroup(
        name=draw(names),
        minMember=min_member,
        minSubGroup=min_subgroup,
        parent=draw(st.none() | names),
        topologyConstraint=draw(constraints),
    )


@st.composite
def pod_groups(draw: st.DrawFn) -> kai.PodGroup:
    min_member, min_subgroup = draw(pods_or_groups)
    return kai.PodGroup(
        spec=kai.PodGroupSpec(
            minMember=min_member,
            minSubGroup=min_subgroup,
            queue=draw(text),
            priorityClassName=draw(text),
            preemptibility=draw(st.sampled_from(["", "preemptible", "non-preemptible"])),
            topologyConstraint=draw(constraints),
            subGroups=tuple(draw(st.lists(subgroups(), max_size=3, unique_by=lambda group: group.name))),
            markUnschedulable=draw(st.none() | st.booleans()),
            schedulingBackoff=draw(st.none() | st.sampled_from([1, -1])),
            preemptionDelay=draw(durations),
            stalenessGracePeriod=draw(durations),
        ),
        status=kai.PodGroupStatus(
            phase=draw(text),
            running=draw(st.integers(0, 100)),
            resourcesStatus=kai.PodGroupResourcesStatus(allocated=draw(resource_lists)),
        ),
    )


@settings(max_examples=50, deadline=None)
@given(queues)
def test_a_queue_comes_back_as_it_was_written_and_the_definition_accepts_it(queue: kai.Queue) -> None:
    written = json_of(queue)
    assert msgspec.json.decode(written, type=kai.Queue) == queue
    document = msgspec.json.decode(written)
    assert refusals({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", **document}) == []


@settings(max_examples=50, deadline=None)
@given(pod_groups())
def test_a_pod_group_comes_back_as_it_was_written_and_the_definition_accepts_it(group: kai.PodGroup) -> None:
    written = json_of(group)
    assert msgspec.json.decode(written, type=kai.PodGroup) == group
    document = msgspec.json.decode(written)
    assert refusals({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", **document}) == []
