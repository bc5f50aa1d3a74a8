"""What can't be read is said, with object and field, and everything else goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.kai import BindRequest, BindRequestSpec, NUMAZonePlacement
from bosket.api.keys import NUMA_OBSERVED_ANNOTATION, NUMA_PREDICTED_ANNOTATION
from bosket.api.node_topology import AttributeInfo, NodeResourceTopology, ResourceInfo
from bosket.api.object import KubeObject, ObjectMeta
from bosket.scheduler.decide import decide
from bosket.scheduler.state.cluster_state import ClusterState
from bosket.testing.build import node, numa_zones, pod_group, queue
from bosket.testing.cluster import NOW
from tests.numa.zoned import aligning, guaranteed, written, zones_by_pod

ZONES = numa_zones("n", {"cpu": "4"}, {"cpu": "4"})


def told(*objects: KubeObject) -> tuple[list[str], Any]:
    """What is reported, and where each pod is expected."""
    said: list[str] = []
    state = ClusterState(report=said.append)
    for each in (queue("q"), node("n"), pod_group("g"), guaranteed("g").build(), *objects):
        state.put(each)
    return said, zones_by_pod(decide(state.snapshot(NOW), aligning()))


def with_amounts(**amounts: str) -> NodeResourceTopology:
    broken = replace(ZONES.zones[1], resources=(ResourceInfo(name="cpu", **{"allocatable": "4", **amounts}),))
    return replace(ZONES, zones=(ZONES.zones[0], broken))


@pytest.mark.parametrize(
    ("amounts", "field"),
    [
        ({"allocatable": "four"}, "zones[node-1].resources: allocatable: "),
        ({"available": "1e"}, "zones[node-1].resources: available: "),
        ({"allocatable": "-1"}, "zones[node-1].resources: allocatable: cpu is -1000"),
        ({"allocatable": "9e30"}, "zones[node-1].resources: allocatable: cpu is 9"),
    ],
)
def test_a_node_whose_zones_have_unreadable_amounts_is_taken_for_one_without(
    amounts: Mapping[str, str], field: str
) -> None:
    said, zones = told(with_amounts(**amounts))
    assert len(said) == 1
    assert said[0].startswith("NodeResourceTopology n: " + field)
    assert zones == {"g": {}}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("topologyManagerPolicy", "strict", "topologyManagerPolicy is 'strict', known are none, best-effort"),
        ("topologyManagerScope", "node", "topologyManagerScope is 'node', known are container and pod"),
    ],
)
def test_an_unknown_policy_or_scope_is_taken_for_the_mildest(name: str, value: str, words: str) -> None:
    attributes = tuple(
        AttributeInfo(name=each.name, value=value) if each.name == name else each for each in ZONES.attributes
    )
    said, zones = told(replace(ZONES, attributes=attributes))
    assert len(said) == 1
    assert said[0].startswith(f"NodeResourceTopology n: attributes: {words}")
    assert zones == {"g": {} if name == "topologyManagerPolicy" else {"node-0": {"cpu": "3"}}}


def test_an_unknown_word_of_an_older_exporter_is_said() -> None:
    said, zones = told(replace(ZONES, attributes=(), topologyPolicies=("Loose",)))
    assert said == ["NodeResourceTopology n: topologyPolicies[0] is 'Loose', which nobody knows; it is taken for none"]
    assert zones == {"g": {}}


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '[{"zone": 1}]', '[{"zone": "node-0", "amount": {"cpu": "x"}}]'])
def test_an_annotation_that_cannot_be_read_is_ignored_in_favour_of_what_was_expected(text: str) -> None:
    running = guaranteed("r").running_on("n")
    predicted = running.annotate(NUMA_PREDICTED_ANNOTATION, written({"node-0": {"cpu": "3"}}))
    said, zones = told(ZONES, pod_group("r"), predicted.annotate(NUMA_OBSERVED_ANNOTATION, text).build())
    assert len(said) == 1
    assert said[0].startswith(f"Pod default/r: annotation {NUMA_OBSERVED_ANNOTATION}: ")
    assert zones == {"g": {"node-1": {"cpu": "3"}}}


def test_a_bind_request_that_cannot_be_read_is_said_and_its_pod_still_counts() -> None:
    request = BindRequest(
        metadata=ObjectMeta(name="r", namespace="default"),
        spec=BindRequestSpec(
            podName="r",
            selectedNode="n",
            predictedNUMAZones=(NUMAZonePlacement(zone="node-0", amount={"cpu": "many"}),),
        ),
    )
    said, zones = told(ZONES, pod_group("r"), request, guaranteed("r").build())
    assert len(said) == 1
    assert "the bind request of pod default/r: spec.predictedNUMAZones: " in said[0]
    assert zones == {"g": {"node-0": {"cpu": "3"}}}


def test_a_topology_without_a_node_waits_for_it() -> None:
    said, zones = told(numa_zones("elsewhere", {"cpu": "1"}))
    assert said == []
    assert zones == {"g": {}}
