"""Webhooks that are named by a service: found by its endpoints, on this machine as anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from bosket.api.core import Service
from bosket.apiserver.server.api_server import ApiServer
from bosket.kube.client import Client
from bosket.kube.errors import ServerError
from bosket.kube.retry import RetryPolicy
from bosket.runtime.clock import SystemClock
from tests.e2e.manifest import config_map
from tests.e2e.webhook_server import WebhookServer, patching, serving_webhooks

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"}}
DNS = "hooks.default.svc"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    server = ApiServer(clock=SystemClock())
    running = asyncio.create_task(server.run())
    try:
        yield Client(server.transport(), retry=RetryPolicy(attempts=1))
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.fixture
async def webhooks() -> AsyncIterator[WebhookServer]:
    async with serving_webhooks(dns=(DNS,)) as server:
        yield server


async def register(client: Client, webhooks: WebhookServer, **service: Any) -> int:
    """A webhook that is in a service; gives the port that its endpoints have."""
    judge = patching({"op": "add", "path": "/data/b", "value": "2"})
    hook = webhooks.hook("m.test.example", judge, "default")
    reference = {"namespace": "default", "name": "hooks", "path": "/m", **service}
    hook["clientConfig"] = {"service": reference, "caBundle": webhooks.ca_bundle}
    await client.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "m"},
            "webhooks": [hook],
        }
    )
    port = urlsplit(webhooks.url).port
    assert port is not None
    return port


async def completed(client: Client) -> dict[str, str]:
    made = await client.create(config_map("a", {"a": "1"}), "default")
    data: dict[str, str] = made["data"]
    return data


async def test_by_its_endpoints(client: Client, webhooks: WebhookServer) -> None:
    port = await register(client, webhooks, port=8443)
    await client.create({**SERVICE, "spec": {"ports": [{"name": "web", "port": 8443}]}}, "default")
    ports = [{"name": "other", "port": 1}, {"name": "web", "port": port}]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": ports}
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hooks"}, "subsets": [subset]}
    await client.create(endpoints, "default")
    assert await completed(client) == {"a": "1", "b": "2"}


async def test_by_an_external_name(client: Client, webhooks: WebhookServer) -> None:
    port = urlsplit(webhooks.url).port
    await register(client, webhooks, port=port)
    await client.create({**SERVICE, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}, "default")
    assert await completed(client) == {"a": "1", "b": "2"}


async def test_one_that_is_nowhere_is_named(client: Client, webhooks: WebhookServer) -> None:
    await register(client, webhooks)
    with pytest.raises(ServerError, match='failed to call webhook: service "hooks" not found'):
        await completed(client)
    await client.create({**SERVICE, "spec": {"ports": [{"port": 80}]}}, "default")
    with pytest.raises(ServerError, match="no service port 443 found for service hooks"):
        await completed(client)
    await client.patch(Service, "hooks", {"spec": {"ports": [{"port": 443}]}}, namespace="default")
    with pytest.raises(ServerError, match='no endpoints available for service "hooks"'):
        await completed(client)
