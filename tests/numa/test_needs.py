"""What of a pod a kubelet aligns: only Guaranteed pods' CPUs and memory, only whole CPUs, everybody's devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.scheduler.model.numa import is_guaranteed, needs_of

SIDECAR: dict[str, Any] = {"restartPolicy": "Always"}


def container(limits: dict[str, str], requests: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "name": "c",
        "resources": {"limits": limits, "requests": limits if requests is None else requests},
        **fields,
    }


def a_pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), qos: str = "", **spec: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": "p"},
            "spec": {"containers": list(containers), "initContainers": list(init), **spec},
            "status": {"qosClass": qos},
        },
        Pod,
    )


def cpus(cpu: str, memory: str = "1Gi", **others: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, **others}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod(container(cpus("1"))), True),
        (a_pod(container(cpus("1"), {})), True),  # Kubernetes takes the limit for the request
        (a_pod(container(cpus("1"), cpus("1000m"))), True),
        (a_pod(container(cpus("2"), cpus("1"))), False),
        (a_pod(container({"cpu": "1"})), False),
        (a_pod(container({}, cpus("1"))), False),
        (a_pod(container(cpus("0"))), False),
        (a_pod(container(cpus("1")), container({})), False),
        (a_pod(container(cpus("1")), init=(container({}),)), False),
        (a_pod(container(cpus("1")), init=(container(cpus("2")),)), True),
        (a_pod(container({}), qos="Guaranteed"), True),
        (a_pod(container(cpus("1")), qos="Burstable"), False),
        (a_pod(), False),
    ],
)
def test_a_pod_is_guaranteed_as_kubernetes_has_it(pod: Pod, expected: bool) -> None:
    assert is_guaranteed(pod) is expected


def test_a_guaranteed_pod_is_aligned_as_a_whole_and_by_its_containers() -> None:
    needs = needs_of(a_pod(container(cpus("2", "1Ki")), container(cpus("1", "2Ki", **{"nvidia.com/gpu": "1"}))))
    assert needs is not None
    assert needs.guaranteed
    assert dict(needs.pod) == {"cpu": 3000, "memory": 3072, "gpu": 1}
    assert [dict(each) for each in needs.together] == [
        {"cpu": 2000, "memory": 1024},
        {"cpu": 1000, "memory": 2048, "gpu": 1},
    ]
    assert needs.apart == ()


def test_parts_of_cpus_come_from_what_all_share_and_are_aligned_to_nothing() -> None:
    needs = needs_of(a_pod(container(cpus("2")), container(cpus("1500m"))))
    assert needs is not None
    assert dict(needs.pod)["cpu"] == 2000
    assert [dict(each).get("cpu") for each in needs.together] == [2000, None]


def test_sidecars_run_beside_containers_and_init_containers_one_after_the_other() -> None:
    init = (container(cpus("1"), **SIDECAR), container(cpus("6")), container(cpus("2500m")))
    needs = needs_of(a_pod(container(cpus("3")), init=init))
    assert needs is not None
    assert [dict(each).get("cpu") for each in needs.together] == [1000, 3000]
    assert [dict(each).get("cpu") for each in needs.apart] == [6000, None]
    assert dict(needs.pod)["cpu"] == 7000  # the sidecar and the larger init container


def test_of_other_pods_only_devices_are_aligned() -> None:
    needs = needs_of(a_pod(container({"nvidia.com/gpu": "2", "example.com/nic": "1"}, cpus("2"))))
    assert needs is not None
    assert not needs.guaranteed
    assert dict(needs.pod) == {"gpu": 2, "example.com/nic": 1}


@pytest.mark.parametrize("requests", [{}, {"cpu": "4"}, {"memory": "1Gi", "hugepages-2Mi": "4Mi"}])
def test_most_pods_have_nothing_to_align(requests: dict[str, str]) -> None:
    assert needs_of(a_pod(container({}, requests))) is None
