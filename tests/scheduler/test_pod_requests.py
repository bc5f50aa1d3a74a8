"""A pod's request is what it needs at its peak, as Kubernetes counts it."""

from collections.abc import Sequence

from bosket.api.core import Container, PodSpec, ResourceRequirements
from bosket.api.quantity import Quantity
from bosket.scheduler.model.resource import pod_request


def container(cpu: str | None, *, sidecar: bool = False, limit: str | None = None) -> Container:
    resources = ResourceRequirements(requests={"cpu": cpu} if cpu else {}, limits={"cpu": limit} if limit else {})
    return Container(name="c", resources=resources, restartPolicy="Always" if sidecar else None)


def cpu_of(
    containers: Sequence[Container], init: Sequence[Container] = (), overhead: dict[str, Quantity] | None = None
) -> int:
    return pod_request(PodSpec(containers=tuple(containers), initContainers=tuple(init), overhead=overhead or {}))[
        "cpu"
    ]


def test_containers_add_up() -> None:
    assert cpu_of([container("1"), container("500m")]) == 1500


def test_the_largest_init_container_counts_if_it_needs_more() -> None:
    assert cpu_of([container("1")], [container("3"), container("2")]) == 3000


def test_sidecars_run_beside_containers_and_beside_later_init_containers() -> None:
    assert cpu_of([container("1")], [container("2", sidecar=True), container("3")]) == 5000
    assert cpu_of([container("1")], [container("3"), container("2", sidecar=True)]) == 3000
    assert cpu_of([container("4")], [container("2", sidecar=True), container("3")]) == 6000


def test_overhead_comes_on_top() -> None:
    assert cpu_of([container("1")], overhead={"cpu": "250m"}) == 1250


def test_a_limit_without_a_request_is_the_request() -> None:
    assert cpu_of([container(None, limit="2")]) == 2000


def test_every_pod_takes_one_place() -> None:
    assert pod_request(PodSpec(containers=()))["pods"] == 1
