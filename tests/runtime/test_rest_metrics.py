"""Requests to the API server are counted by method and answer."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import ConfigMap
from bosket.api.object import ObjectMeta
from bosket.kube.client import Client
from bosket.kube.errors import NotFound, TransportError
from bosket.kube.retry import RetryPolicy
from bosket.runtime.rest_metrics import MeasuredTransport
from tests.runtime.cluster import Cluster


async def test_answers_refusals_and_silence_are_counted_apart() -> None:
    cluster = await Cluster().start()
    wire, _ = cluster.wire()
    registry = CollectorRegistry()
    client = Client(MeasuredTransport(wire, registry), retry=RetryPolicy(attempts=1))
    await client.create(ConfigMap(metadata=ObjectMeta(name="c", namespace="default")))
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "other", "default")
    wire.cut = True
    with pytest.raises(TransportError):
        await client.get(ConfigMap, "c", "default")
    counted = {
        (sample.labels["method"], sample.labels["code"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "rest_client_requests_total"
    }
    assert counted == {("POST", "201"): 1, ("GET", "404"): 1, ("GET", "<error>"): 1}
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", {"verb": "POST"}) == 1
