"""What a Prometheus is asked, and what its answers come to. With a real one: tests/e2e/test_prometheus.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bosket.api.kai import UsageDBConfig, UsageParams
from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_parameters import parameters_from
from bosket.scheduler.usage.prometheus import PrometheusUsage, connect
from bosket.scheduler.usage.source import UsageUnavailable
from bosket.scheduler.usage.stores import open_source

NOW = 1_750_000_000.25
CAPACITY = {"nvidia_com_gpu": 80.0, '"cpu"': 100.0, '"memory"': 1000.0}
ALLOCATED = {
    "kai_queue_allocated_gpus": {"a": 40.0, "b": 8.0},
    "kai_queue_allocated_cpu_cores": {"a": 25.0},
    "kai_queue_allocated_memory_bytes": {"b": 500.0},
}


class Server:
    """Answers each query by the first known text that is in it."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = {
            **{text: [({}, total)] for text, total in CAPACITY.items()},
            **{
                text: [({"queue_name": queue}, value) for queue, value in held.items()]
                for text, held in ALLOCATED.items()
            },
            **(answers or {}),
        }
        self.queries: list[str] = []

    async def request(self, request: Request) -> Response:
        parameters = dict(request.query)
        assert (request.method, request.path, parameters["time"]) == ("GET", "/api/v1/query", f"{NOW:.3f}")
        self.queries.append(parameters["query"])
        answer: Any = next((each for text, each in self.answers.items() if text in parameters["query"]), [])
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Response):
            return answer
        result = [{"metric": labels, "value": [NOW, str(value)]} for labels, value in answer]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}, "warnings": ["so so"]}
        return Response(200, body=json.dumps(body).encode())

    async def stream(self, request: Request) -> Stream:
        raise AssertionError("nobody asks for a stream")

    async def aclose(self) -> None:
        pass


def usage_of(server: Server, **params: Any) -> PrometheusUsage:
    return PrometheusUsage(server, parameters_from(UsageParams(**params)), "prometheus http://p")


async def test_usage_is_what_queues_held_over_what_the_cluster_had() -> None:
    usage = await usage_of(Server()).fetch(NOW)
    assert usage.parts == {"a": (0.5, 0.25, 0.0), "b": (0.1, 0.0, 0.5)}
    assert (usage.as_of, usage.source) == (NOW, "prometheus http://p")


async def test_the_queries_are_kais() -> None:
    server = Server()
    await usage_of(server).fetch(NOW)
    assert sorted(server.queries) == [
        "sum_over_time((kai_queue_allocated_cpu_cores)[1w:1m])",
        "sum_over_time((kai_queue_allocated_gpus)[1w:1m])",
        "sum_over_time((kai_queue_allocated_memory_bytes)[1w:1m])",
        'sum_over_time((sum(kube_node_status_capacity{resource="cpu"}))[1w:1m])',
        'sum_over_time((sum(kube_node_status_capacity{resource="memory"}))[1w:1m])',
        'sum_over_time((sum(kube_node_status_capacity{resource="nvidia_com_gpu"}))[1w:1m])',
    ]


async def test_a_half_life_fades_both_sides() -> None:
    server = Server()
    metrics = {"gpuAllocationMetric": "held", "gpuCapacityMetric": "had", "queryResolution": "30s"}
    await usage_of(server, halfLifePeriod="10m", windowSize="2d", extraParams=metrics).fetch(NOW)
    faded = "* (0.5^((1750000000 - time()) / 600.000000))"
    assert f"sum_over_time((((held) {faded}))[2d:30s])" in server.queries
    assert f"sum_over_time((((had) {faded}))[2d:30s])" in server.queries


@pytest.mark.parametrize(
    ("params", "span"),
    [
        (
            {"windowType": "tumbling", "windowSize": "1d", "tumblingWindowStartTime": "2025-06-15T00:00:00Z"},
            "15h6m40s249ms",
        ),
        ({"windowType": "cron", "cronString": "0 15 * * *"}, "6m40s249ms"),
    ],
)
async def test_windows_that_began_at_some_time_are_asked_for_as_a_range_that_ends_now(
    params: Mapping[str, str], span: str
) -> None:
    """2025-06-15 15:06:40.250 is when they are asked for; what was at their very beginning was before them."""
    server = Server()
    await usage_of(server, **params).fetch(NOW)
    assert f"sum_over_time((kai_queue_allocated_gpus)[{span}:1m])" in server.queries


async def test_a_window_that_begins_now_has_seen_nothing_and_nobody_is_asked() -> None:
    server = Server()
    usage = await usage_of(
        server, windowType="tumbling", windowSize="1d", tumblingWindowStartTime="2030-01-01T00:00:00Z"
    ).fetch(NOW)
    assert (usage.parts, usage.as_of, server.queries) == ({}, NOW, [])


async def test_a_queue_with_several_series_has_used_their_sum() -> None:
    """The queue controller was started anew: its pod is another, and so is the series."""
    series = [({"queue_name": "a", "pod": "old"}, 10.0), ({"queue_name": "a", "pod": "new"}, 30.0), ({}, 7.0)]
    usage = await usage_of(Server({"kai_queue_allocated_gpus": series})).fetch(NOW)
    assert usage.parts == {"a": (0.5, 0.25, 0.0), "b": (0.0, 0.0, 0.5)}


async def test_a_resource_that_the_cluster_does_not_have_is_used_by_nobody() -> None:
    usage = await usage_of(
        Server({"nvidia_com_gpu": [], "kai_queue_allocated_gpus": [({"queue_name": "a"}, 0)]})
    ).fetch(NOW)
    assert usage.parts["a"] == (0.0, 0.25, 0.0)
    usage = await usage_of(Server({"nvidia_com_gpu": [({}, 0.0)]})).fetch(NOW)
    assert usage.parts["a"] == (0.0, 0.25, 0.0)


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({"nvidia_com_gpu": []}, r"queues held GPU, but there is no answer to sum_over_time\(\(sum\("),
        ({text: [] for text in CAPACITY}, "it doesn't know what the cluster has"),
        ({"kai_queue_allocated_gpus": [({"queue_name": "a"}, "NaN")]}, r"is nan for \{'queue_name': 'a'\}"),
        ({'"cpu"': TransportError("GET /api/v1/query: no answer: refused")}, "prometheus http://p: GET .* refused"),
        ({'"cpu"': Response(502, body=b"<html>Bad gateway</html>")}, "answered 502, not as a Prometheus"),
        (
            {'"cpu"': Response(422, body=b'{"status":"error","errorType":"execution","error":"too many samples"}')},
            r"execution: too many samples; asked for sum_over_time",
        ),
        ({'"cpu"': Response(200, body=b'{"status":"success","data":{"result":[{"metric":{}}]}}')}, "not as a Prom"),
    ],
)
async def test_what_is_no_answer_says_why(
    answers: Mapping[str, Response | TransportError | list[tuple[dict[str, str], str]]], complaint: str
) -> None:
    with pytest.raises(UsageUnavailable, match=complaint):
        await usage_of(Server(dict(answers))).fetch(NOW)


@pytest.mark.parametrize("address", ["prometheus:9090", "http://", "ftp://prometheus", "http://prometheus:x", ""])
def test_an_address_that_is_none_is_refused_without_repeating_its_password(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"usageDBConfig\.connectionString") as error:
        connect(address, parameters_from(None))
    assert "secret" not in str(error.value)


async def test_the_source_is_named_without_credentials() -> None:
    config = UsageDBConfig(clientType="prometheus", connectionString="https://me:secret@prometheus:9090/prefix/")
    usage = open_source(config)
    assert isinstance(usage, PrometheusUsage)
    assert usage._source == "prometheus https://prometheus:9090/prefix"
    await usage.aclose()
