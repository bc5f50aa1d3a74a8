"""Ports that pods take on their node."""

import pytest

from bosket.api.core import Container, ContainerPort
from bosket.api.core.pod import Pod
from bosket.api.object import KubeObject
from bosket.scheduler.model.decisions import Decisions
from bosket.testing.build import PodBuilder, node, pod, pod_group, queue
from bosket.testing.cluster import NOW, decided, placements, reasons


def port(number: int, protocol: str = "", address: str = "", inside: int = 80) -> ContainerPort:
    return ContainerPort(containerPort=inside, hostPort=number, protocol=protocol, hostIP=address)


def taking(name: str, *ports: ContainerPort) -> PodBuilder:
    return pod(name).cpu("1").with_container(ports=ports)


def one(*objects: KubeObject) -> Decisions:
    return decided(queue("q"), pod_group("g"), *objects)


def test_two_pods_with_the_same_port_do_not_share_a_node() -> None:
    decisions = decided(
        queue("q"), pod_group("g"), pod_group("h"), node("n1"), node("n2"),
        taking("g-0", port(8080)).of_group("g").build(), taking("h-0", port(8080)).of_group("h").build(),
    )  # fmt: skip
    assert sorted(placements(decisions).values()) == ["n1", "n2"]


def test_a_port_that_is_taken_is_the_reason() -> None:
    there = taking("there", port(8080)).running_on("n1").build()
    decisions = one(node("n1"), there, taking("g-0", port(8080)).of_group("g").build())
    assert placements(decisions) == {}
    assert "1 node(s) didn't have free ports for the requested pod ports." in reasons(decisions)["g"]


@pytest.mark.parametrize(
    ("taken", "wanted", "clash"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80, "TCP"), port(80), True),
        (port(80, "UDP"), port(80), False),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.1"), True),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.2"), False),
        (port(80, address="10.0.0.1"), port(80), True),
        (port(80), port(80, address="10.0.0.1"), True),
        (port(80, address="0.0.0.0"), port(80, address="10.0.0.1"), True),
        (port(80, address="10.0.0.1"), port(80, address="0.0.0.0"), True),
    ],
)
def test_ports_clash_by_number_protocol_and_address(taken: ContainerPort, wanted: ContainerPort, clash: bool) -> None:
    there = taking("there", taken).running_on("n1").build()
    decisions = one(node("n1"), there, taking("g-0", wanted).of_group("g").build())
    assert placements(decisions) == ({} if clash else {"g-0": "n1"})


def test_ports_inside_a_pod_are_its_own_business() -> None:
    there = taking("there", port(0)).running_on("n1").build()
    assert placements(one(node("n1"), there, taking("g-0", port(0)).of_group("g").build())) == {"g-0": "n1"}


def test_a_pod_that_is_being_deleted_still_has_its_port() -> None:
    going = taking("going", port(80)).running_on("n1").being_deleted_at(NOW).build()
    assert placements(one(node("n1"), going, taking("g-0", port(80)).of_group("g").build())) == {}


def test_sidecars_take_ports_and_ordinary_init_containers_do_not() -> None:
    def beside(policy: str | None) -> Pod:
        sidecar = Container(name="side", restartPolicy=policy, ports=(port(80),))
        return pod("there").with_spec(initContainers=(sidecar,)).running_on("n1").build()

    wanting = taking("g-0", port(80)).of_group("g").build()
    assert placements(one(node("n1"), beside("Always"), wanting)) == {}
    assert placements(one(node("n1"), beside(None), wanting)) == {"g-0": "n1"}
