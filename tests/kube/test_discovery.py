"""Which kinds a server serves."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from bosket.api.resource import Resource
from bosket.kube.errors import UnexpectedBody
from tests.kube.scripted import Script, answer, client_of, failure

PODS: Resource[dict[str, Any]] = Resource("", "v1", "Pod", "pods", dict, True, ("po",), ("all",), ("binding", "status"))
NODES: Resource[dict[str, Any]] = Resource("", "v1", "Node", "nodes", dict, False)
JOBS: Resource[dict[str, Any]] = Resource("batch", "v1", "Job", "jobs", dict, True, (), (), ("status",))


def aggregated(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(groups)}


async def test_aggregated_discovery_takes_two_requests() -> None:
    core = {
        "metadata": {"creationTimestamp": None},
        "versions": [
            {
                "version": "v1",
                "freshness": "Current",
                "resources": [
                    {
                        "resource": "pods",
                        "responseKind": {"group": "", "version": "", "kind": "Pod"},
                        "scope": "Namespaced",
                        "singularResource": "pod",
                        "verbs": ["get"],
                        "shortNames": ["po"],
                        "categories": ["all"],
                        "subresources": [
                            {"subresource": "binding", "responseKind": {"kind": "Binding"}, "verbs": ["create"]},
                            {"subresource": "status", "responseKind": {"kind": "Pod"}, "verbs": ["get"]},
                        ],
                    },
                    {"resource": "nodes", "responseKind": {"kind": "Node"}, "scope": "Cluster"},
                ],
            }
        ],
    }
    batch = {
        "metadata": {"name": "batch"},
        "versions": [
            {
                "version": "v1",
                "resources": [
                    {
                        "resource": "jobs",
                        "responseKind": {"kind": "Job"},
                        "scope": "Namespaced",
                        "subresources": [{"subresource": "status"}],
                    }
                ],
            }
        ],
    }
    script = Script(answer(aggregated(core)), answer(aggregated(batch)))
    assert await client_of(script).discover() == [PODS, NODES, JOBS]
    assert [request.path for request in script.requests] == ["/api", "/apis"]
    assert "as=APIGroupDiscoveryList" in script.requests[0].headers["Accept"]


CORE_LIST = {
    "groupVersion": "v1",
    "resources": [
        {"name": "pods", "namespaced": True, "kind": "Pod", "shortNames": ["po"], "categories": ["all"]},
        {"name": "pods/binding", "namespaced": True, "kind": "Binding"},
        {"name": "pods/status", "namespaced": True, "kind": "Pod"},
        {"name": "nodes", "namespaced": False, "kind": "Node"},
    ],
}
JOB_LIST = {
    "groupVersion": "batch/v1",
    "resources": [
        {"name": "jobs", "namespaced": True, "kind": "Job"},
        {"name": "jobs/status", "namespaced": True, "kind": "Job"},
    ],
}
GROUPS = {
    "kind": "APIGroupList",
    "groups": [
        {"name": "down.dev", "versions": [{"groupVersion": "down.dev/v1"}]},
        {"name": "batch", "versions": [{"groupVersion": "batch/v1"}]},
    ],
}


async def test_a_server_without_it_is_asked_group_by_group_and_one_that_is_down_hides_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(
        answer({"kind": "APIVersions", "versions": ["v1"]}),
        answer(CORE_LIST),
        answer(GROUPS),
        failure(502, message="no endpoints"),
        answer(JOB_LIST),
    )
    with caplog.at_level(logging.WARNING):
        assert await client_of(script).discover() == [PODS, NODES, JOBS]
    assert [request.path for request in script.requests] == [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/down.dev/v1",
        "/apis/batch/v1",
    ]
    assert "down.dev/v1" in caplog.text


async def test_a_group_that_went_away_in_between_is_left_out() -> None:
    script = Script(
        answer({"versions": ["v1"]}), answer(CORE_LIST), answer(GROUPS), failure(404, "NotFound"), answer(JOB_LIST)
    )
    assert JOBS in await client_of(script).discover()


async def test_a_server_that_answers_nonsense_is_an_error() -> None:
    with pytest.raises(UnexpectedBody, match=r"discovery: .*hello"):
        await client_of(Script(answer(b"hello"))).discover()
