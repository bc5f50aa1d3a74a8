"""What the services of one `bosket run` share."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry

from bosket.api.core import Pod
from bosket.api.object import ObjectMeta
from bosket.cli.output import CommandError
from bosket.cli.run import make_environment, reach_cluster
from bosket.kube.client import Client
from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream
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


class _Restarted:
    """A server that can't be reached for some seconds, and then knows none of KAI's kinds."""

    def __init__(self, seconds: float) -> None:
        self._back_at = asyncio.get_running_loop().time() + seconds

    async def request(self, request: Request) -> Response:
        if asyncio.get_running_loop().time() < self._back_at:
            raise TransportError(f"{request.method} {request.path}: connection refused", maybe_carried_out=False)
        return Response(404, {}, b'{"kind": "Status", "code": 404, "reason": "NotFound"}')

    async def stream(self, request: Request) -> Stream:
        raise NotImplementedError

    async def aclose(self) -> None: ...


@pytest.mark.looptime
async def test_a_service_waits_for_an_api_server_that_is_being_restarted() -> None:
    with pytest.raises(CommandError, match="doesn't know KAI's kinds"):
        await reach_cluster(Client(_Restarted(seconds=60)), None)
    assert 60 <= asyncio.get_running_loop().time() < 120


@pytest.mark.looptime
async def test_a_service_gives_up_when_there_is_no_api_server() -> None:
    with pytest.raises(TransportError, match="connection refused"):
        await reach_cluster(Client(_Restarted(seconds=1e6)), None)
    assert 120 <= asyncio.get_running_loop().time() < 200
