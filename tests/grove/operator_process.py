"""The operator as in a process of its own, beside a cluster that has none: tests give it a transport, and kill it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.grove_admission import DEFAULT_CONFIGURATION
from bosket.grove.backends import service as backends_service
from bosket.grove.operator import Options, service
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.kube.transport import Transport
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment, run_services


@asynccontextmanager
async def operator(
    cluster: EmbeddedCluster, transport: Transport, options: Options | None = None, *, with_backends: bool = False
) -> AsyncIterator[None]:
    """Leaving the block kills it; backends run in the same process if they are asked for."""
    client = Client(transport, clock=cluster.clock)
    environment = Environment(
        client=client,
        informers=Informers(client),
        clock=cluster.clock,
        events=EventRecorder(cluster.client("events"), cluster.clock, "test"),
        metrics=CollectorRegistry(),
    )
    services = [service(environment, options or Options(DEFAULT_CONFIGURATION))]
    if with_backends:
        services.append(backends_service(environment))
    task = asyncio.create_task(run_services(environment, services, leader_election=False, stop_seconds=0.1))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
