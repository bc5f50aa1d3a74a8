"""A node takes what fits, and says what doesn't."""

from __future__ import annotations

from bosket.api.core import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from bosket.api.object import ObjectMeta
from bosket.embedded.admission import NodeLedger, pod_requests

NODE = Node(
    metadata=ObjectMeta(name="n"),
    status=NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "3", "nvidia.com/gpu": "2"}),
)


def container(restart_policy: str | None = None, **requests: str | int) -> Container:
    named = {"nvidia.com/gpu" if name == "gpu" else name: amount for name, amount in requests.items()}
    return Container(name="c", restartPolicy=restart_policy, resources=ResourceRequirements(requests=dict(named)))


def pod(name: str, *containers: Container, **spec: object) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, uid=name),
        spec=PodSpec(nodeName="n", containers=containers, **spec),  # type: ignore[arg-type]
    )


def test_pods_are_taken_until_the_node_is_full() -> None:
    ledger = NodeLedger()
    assert ledger.admit(pod("a", container(gpu=1)), NODE) is None
    assert ledger.admit(pod("b", container(gpu=1)), NODE) is None
    refusal = ledger.admit(pod("c", container(gpu=1)), NODE)
    assert refusal is not None
    assert refusal.reason == "OutOfnvidia.com/gpu"
    assert "requested 1, used 2, allocatable 2" in refusal.message
    assert ledger.used("n") == {"nvidia.com/gpu": 2000, "pods": 2000}


def test_the_number_of_pods_is_limited_too() -> None:
    ledger = NodeLedger()
    for name in "abc":
        assert ledger.admit(pod(name, container()), NODE) is None
    refusal = ledger.admit(pod("d", container()), NODE)
    assert refusal is not None
    assert refusal.reason == "OutOfpods"


def test_a_resource_that_the_node_does_not_have_is_refused() -> None:
    refusal = NodeLedger().admit(pod("a", Container(name="c", resources=ResourceRequirements(limits={"x/y": 1}))), NODE)
    assert refusal is not None
    assert refusal.reason == "OutOfx/y"


def test_released_resources_can_be_given_again() -> None:
    ledger = NodeLedger()
    first = pod("a", container(cpu="3500m"))
    assert ledger.admit(first, NODE) is None
    assert ledger.admit(pod("b", container(cpu="501m")), NODE) is not None
    ledger.release(first)
    ledger.release(first)
    assert ledger.admit(pod("b", container(cpu="501m")), NODE) is None


def test_a_pod_is_charged_once_however_often_it_is_seen() -> None:
    ledger = NodeLedger()
    running = pod("a", container(gpu=2))
    ledger.charge(running)
    ledger.charge(running)
    assert ledger.admit(running, NODE) is None
    assert ledger.used("n")["nvidia.com/gpu"] == 2000


def test_a_pod_asks_for_its_containers_or_its_largest_init_step() -> None:
    asked = pod_requests(
        pod(
            "a",
            container(cpu="1", memory="1Gi"),
            container(cpu="500m"),
            initContainers=(container(cpu="3"), container("Always", cpu="250m"), container(cpu="1")),
            overhead={"cpu": "10m"},
        )
    )
    assert asked == {"cpu": 3010, "memory": 1024**3 * 1000, "pods": 1000}


def test_sidecars_count_with_the_containers_they_run_beside() -> None:
    asked = pod_requests(pod("a", container(cpu="1"), initContainers=(container("Always", cpu="250m"),)))
    assert asked["cpu"] == 1250
