"""Usage history from a Prometheus, with KAI's queries.

For each of GPU, CPU and memory two instant queries: what queues held, and what the cluster had, both summed over the
window in steps of the resolution, with the half-life's decay if there is one. Their ratio is the queue's usage.

Where Bosket leaves KAI: tumbling and cron windows are queried as a range that ends now (KAI's queries for them can't
work); a queue with several series, as after a restart of the exporter, has used their sum; and a resource that the
cluster doesn't have and no queue held is no error.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from bosket.kube.carrier import ClusterConfig
from bosket.kube.credentials import Credential, FixedCredential, basic
from bosket.kube.errors import KubeError
from bosket.kube.http import HttpTransport
from bosket.kube.transport import Request, Response, Transport
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_parameters import Parameters, format_prometheus_duration
from bosket.scheduler.configuration.usage_window import Sliding
from bosket.scheduler.model.resource import QueueAmounts
from bosket.scheduler.model.usage import Usage
from bosket.scheduler.usage.source import UsageUnavailable

_log = logging.getLogger(__name__)

#: The label that says whose use it is: the name of the Queue object.
QUEUE_LABEL: Final = "queue_name"
_RESOURCES: Final = ("GPU", "CPU", "memory")
_PATH: Final = "/api/v1/query"


def connect(address: str, parameters: Parameters) -> PrometheusUsage:
    """The Prometheus at `http[s]://[user:password@]host[:port][/path]`; raises `ConfigurationError`."""
    try:
        url = urlsplit(address)
        port = f":{url.port}" if url.port is not None else ""
    except ValueError as error:
        raise ConfigurationError(f"usageDBConfig.connectionString is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigurationError(
            "usageDBConfig.connectionString must be the address of a Prometheus, such as http://prometheus:9090"
        )
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    server = f"{url.scheme}://{host}{port}{url.path.rstrip('/')}"
    known = url.username is not None
    user = Credential(authorization=basic(unquote(url.username or ""), unquote(url.password or ""))) if known else None
    config = ClusterConfig(server=server, credentials=FixedCredential(user) if user else FixedCredential())
    return PrometheusUsage(HttpTransport(config), parameters, f"prometheus {server}")


class PrometheusUsage:
    """Asks one Prometheus."""

    def __init__(self, transport: Transport, parameters: Parameters, source: str) -> None:
        self._transport = transport
        self._parameters = parameters
        self._source = source

    async def fetch(self, now: float) -> Usage:
        begin = self._parameters.window.start(now)
        if round((now - begin) * 1000) <= 1:
            return Usage({}, now, self._source)  # a window that has just begun, or not yet
        metrics = (*self._parameters.capacity_metrics, *self._parameters.allocation_metrics)
        queries = [query_for(metric, self._parameters, now) for metric in metrics]
        answers = await asyncio.gather(*(self._ask(query, now) for query in queries))
        if not any(answers[:3]) and now - begin > 2 * self._parameters.resolution_seconds:
            asked = ", ".join(queries[:3])
            raise UsageUnavailable(f"{self._source}: it doesn't know what the cluster has; asked for {asked}")
        capacity = [sum(value for _, value in series) for series in answers[:3]]
        used: dict[str, list[float]] = {}
        for index, (series, query) in enumerate(zip(answers[3:], queries[3:], strict=True)):
            for labels, value in series:
                if not math.isfinite(value):
                    raise UsageUnavailable(f"{self._source}: the answer to {query} is {value} for {labels}")
                used.setdefault(labels.get(QUEUE_LABEL, ""), [0.0] * 3)[index] += value
        for index, resource in enumerate(_RESOURCES):
            if not answers[index] and any(amounts[index] for amounts in used.values()):
                raise UsageUnavailable(
                    f"{self._source}: queues held {resource}, but there is no answer to {queries[index]}"
                )
        return Usage({queue: _parts(amounts, capacity) for queue, amounts in used.items() if queue}, now, self._source)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _ask(self, query: str, now: float) -> list[tuple[dict[str, str], float]]:
        timeout = self._parameters.query_timeout_seconds
        parameters = (("query", query), ("time", f"{now:.3f}"), ("timeout", format_prometheus_duration(timeout)))
        try:
            response = await self._transport.request(Request("GET", _PATH, parameters, timeout_seconds=timeout))
        except KubeError as error:
            raise UsageUnavailable(f"{self._source}: {error}") from error
        answer = self._read(response, query)
        for warning in answer.warnings:
            _log.warning("Prometheus warns of a query", extra={"query": query, "warning": warning})
        return [(series.metric, float(series.value[1])) for series in answer.data.result]

    def _read(self, response: Response, query: str) -> _Answer:
        try:
            answer = msgspec.json.decode(response.body, type=_Answer)
        except msgspec.DecodeError as error:
            raise UsageUnavailable(
                f"{self._source}: answered {response.status}, not as a Prometheus: {error}"
            ) from error
        if answer.status != "success":
            error_type = answer.errorType or response.status
            raise UsageUnavailable(f"{self._source}: {error_type}: {answer.error}; asked for {query}")
        return answer


def query_for(metric: str, parameters: Parameters, now: float) -> str:
    """The sum of a metric over the window that ends `now`."""
    half_life = parameters.half_life_seconds
    if half_life is not None:
        metric = f"(({metric}) * (0.5^(({math.floor(now)} - time()) / {half_life:f})))"
    begin = parameters.window.start(now)
    size = now - begin
    if not isinstance(parameters.window, Sliding):
        # Some versions of Prometheus count the very beginning of a range in, where the window before this one ended.
        size -= 0.001
    step = format_prometheus_duration(parameters.resolution_seconds)
    return f"sum_over_time(({metric})[{format_prometheus_duration(size)}:{step}])"


def _parts(used: Sequence[float], capacity: Sequence[float]) -> QueueAmounts:
    gpu, cpu, memory = (amount / total if total > 0 else 0.0 for amount, total in zip(used, capacity, strict=True))
    return gpu, cpu, memory


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class _Result(msgspec.Struct, frozen=True):
    result: list[_Series] = []


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: _Result = _Result()
    warnings: list[str] = []
    errorType: str = ""  # noqa: N815 - its name on the wire
    error: str = ""
