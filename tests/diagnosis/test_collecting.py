"""A bundle is read from an API server in process: what it holds, and what it must not hold."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest

from bosket.api.coordination import Lease
from bosket.api.core import Pod, Secret
from bosket.api.object import ObjectMeta
from bosket.embedded.cluster import EmbeddedCluster
from bosket.kube.client import Client
from bosket.kube.errors import TransportError
from bosket.kube.transport import Request, Response, Stream, Transport
from bosket.tools.doctor.bundle import Obstacle
from bosket.tools.doctor.collect import collect
from bosket.tools.doctor.diagnose import diagnose
from tests.diagnosis.installed import SYSTEM, lease, serving


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(nodes=0, services=()) as running:
        await running.wait_ready()
        yield running


async def test_of_secrets_only_certificates_are_kept(cluster: EmbeddedCluster) -> None:
    parts = {"tls.crt": serving().cert_pem, "tls.key": serving().key_pem}
    data = {key: base64.b64encode(part).decode() for key, part in parts.items()}
    name = "kai-admission-webhook-tls-secret"
    await cluster.client().create(Secret(metadata=ObjectMeta(name=name, namespace=SYSTEM), data=data))
    bundle = await collect(cluster.client())
    assert bundle.certificates == {(SYSTEM, name): serving().cert_pem}
    assert Secret not in bundle.objects
    assert "PRIVATE KEY" not in repr(bundle)


async def test_leases_of_others_are_left_out(cluster: EmbeddedCluster) -> None:
    client = cluster.client()
    await client.create(lease("binder"))
    await client.create(Lease(metadata=ObjectMeta(name="theirs", namespace="default")))
    assert [each.metadata.name for each in (await collect(client)).of(Lease)] == ["binder"]


class _Refusing:
    """Refuses what has one of these in its path, with this answer; the rest goes through."""

    def __init__(self, transport: Transport, parts: tuple[str, ...], status: int) -> None:
        self._transport, self._parts, self._status = transport, parts, status

    async def request(self, request: Request) -> Response:
        if any(part in request.path for part in self._parts):
            return Response(self._status, {}, b"{}")
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self._transport.stream(request)

    async def aclose(self) -> None:
        return None


async def test_what_may_not_be_read_is_noted_and_ends_nothing(cluster: EmbeddedCluster) -> None:
    inner = cluster.client()._transport
    refused = ("/pods", "/secrets", "subjectaccessreviews", "/version")
    bundle = await collect(Client(_Refusing(inner, refused, 403)))
    assert bundle.unread[Pod].obstacle is Obstacle.FORBIDDEN
    assert bundle.certificates == {}
    assert bundle.server_version == ""
    assert "kind-forbidden" in [each.code for each in diagnose(bundle).findings]


async def test_a_kind_that_is_not_served_is_noted(cluster: EmbeddedCluster) -> None:
    inner = cluster.client()._transport
    bundle = await collect(Client(_Refusing(inner, ("/deployments",), 404)))
    (unread,) = bundle.unread.values()
    assert unread.obstacle is Obstacle.NOT_SERVED


async def test_a_server_that_does_not_answer_is_an_error() -> None:
    class Silent(_Refusing):
        async def request(self, request: Request) -> Response:
            raise TransportError("refused", maybe_carried_out=False)

    async def no_pause(seconds: float) -> None:
        return None

    class Clock:
        sleep = staticmethod(no_pause)

    with pytest.raises(TransportError):
        await collect(Client(Silent(None, (), 0), clock=Clock()))  # type: ignore[arg-type]
