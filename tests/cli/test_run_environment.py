"""What the services of one `bosket run` share."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Pod
from bosket.api.object import ObjectMeta
from bosket.cli.run import make_environment
from bosket.kube.client import Client
from tests.runtime.cluster import Cluster


@pytest.fixture
def client() -> Client:
    return Cluster().client


async def test_two_processes_of_one_host_never_share_an_identity(client: Client) -> None:
    """With the host's network, pods have its name, and each may be process 1."""
    first, second = (make_environment(client, CollectorRegistry(), "kai-scheduler") for _ in range(2))
    assert first.identity != second.identity
    assert first.identity.partition("_")[0] == second.identity.partition("_")[0]


async def test_the_events_of_services_are_counted_in_the_metrics_that_are_served() -> None:
    cluster = await Cluster().start()
    metrics = CollectorRegistry()
    environment = make_environment(cluster.client, metrics, "kai-scheduler")
    environment.events.event(
        Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u")), "Normal", "Bound", "to a node"
    )
    writing = asyncio.create_task(environment.events.run())
    await asyncio.sleep(0)
    writing.cancel()  # what was reported is written before it ends
    with suppress(asyncio.CancelledError):
        await writing
    assert metrics.get_sample_value("bosket_events_total", {"outcome": "created"}) == 1
