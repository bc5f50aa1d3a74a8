"""The nodes that an embedded cluster starts with."""

from __future__ import annotations

from collections import Counter

from bosket.api.core import NodeStatus
from bosket.embedded.node import Layout, NodeShape, is_ready, is_simulated, registered_status, simulated_node

SHAPE = NodeShape(gpus=4, cpu="8", memory="16Gi")


def test_a_node_is_ready_with_what_its_shape_says() -> None:
    node = simulated_node(7, Layout(8), SHAPE, 0.0)
    assert node.metadata.name == "node-007"
    assert is_simulated(node)
    assert is_ready(node)
    assert node.status.allocatable == node.status.capacity
    assert {name: node.status.allocatable[name] for name in ("cpu", "memory", "nvidia.com/gpu")} == {
        "cpu": "8",
        "memory": "16Gi",
        "nvidia.com/gpu": "4",
    }
    assert node.metadata.labels["kubernetes.io/hostname"] == "node-007"
    assert node.metadata.labels["nvidia.com/gpu.count"] == "4"


def test_a_node_without_gpus_says_nothing_of_gpus() -> None:
    node = simulated_node(0, Layout(1), NodeShape(gpus=0), 0.0)
    assert "nvidia.com/gpu" not in node.status.capacity
    assert not [label for label in node.metadata.labels if label.startswith("nvidia.com")]


def test_neighbours_share_a_rack_and_racks_share_a_zone() -> None:
    layout = Layout(nodes=10, racks=4, zones=2)
    racks = [layout.rack(index) for index in range(10)]
    assert racks == sorted(racks)
    assert set(Counter(racks).values()) <= {2, 3}
    assert [layout.zone(index) for index in range(10)] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_every_node_has_an_address_of_its_own() -> None:
    layout = Layout(70_000)
    addresses = {simulated_node(index, layout, SHAPE, 0.0).status.addresses[0].address for index in range(0, 70_000, 7)}
    assert len(addresses) == 10_000


def test_what_a_user_says_of_a_node_stays_when_it_registers() -> None:
    given = NodeStatus(capacity={"cpu": "2"}, allocatable={"cpu": "1"})
    status = registered_status("mine", given, 0, SHAPE, 0.0)
    assert status.capacity == {"cpu": "2", "pods": "110"}
    assert status.allocatable == {"cpu": "1"}
