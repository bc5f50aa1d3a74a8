"""Grove's admission behind the webhooks of a real API server, for tests that are about it or have it in force."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from bosket.api.grove import ClusterTopologyBinding
from bosket.api.grove.operator_configuration import (
    OperatorConfiguration,
    ServerConfiguration,
    WebhookServerConfiguration,
)
from bosket.embedded.grove_admission import DEFAULT_CONFIGURATION
from bosket.grove.admission import Options
from bosket.kube.errors import ApiError, NotFound
from tests.controlplane.plane import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.webhooks import withdraw_webhooks
from tests.grove_admission.sets import Json, pcs

_VALIDATING: Final = ("podcliqueset-validating-webhook", "clustertopology-validating-webhook")
LEVELS = [{"domain": "zone", "key": "example.com/zone"}, {"domain": "rack", "key": "example.com/rack"}]


async def serve_admission(cluster: Cluster, configuration: OperatorConfiguration = DEFAULT_CONFIGURATION) -> None:
    """Grove's admission runs, and the API server asks it."""
    (port,) = free_ports(1)
    server = ServerConfiguration(webhooks=WebhookServerConfiguration(port=port))
    options = Options(replace(configuration, server=server), url=f"https://127.0.0.1:{port}", upkeep_seconds=0.2)
    await cluster.start_services("grove-admission", options=options)

    async def in_force() -> bool:
        wrong = (named("probe", pcs()), binding("probe", levels=[LEVELS[0]] * 2))
        return all(["denied the request" in await refusal(cluster, each) for each in wrong])

    await cluster.eventually(in_force)
    with suppress(NotFound):
        await cluster.client.delete(ClusterTopologyBinding, "probe")


async def withdraw_admission(cluster: Cluster) -> None:
    await withdraw_webhooks(
        cluster,
        "grove-admission",
        validating=_VALIDATING,
        mutating="podcliqueset-defaulting-webhook",
        secret="grove-webhook-server-cert",
    )


def binding(name: str, levels: list[Json] | None = None, *bound: str) -> Json:
    references = [{"schedulerName": each, "topologyReference": "theirs"} for each in bound]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": {"levels": levels or LEVELS, "schedulerTopologyBindings": references},
    }


def named(name: str, document: Json) -> Json:
    """The set without a namespace: it is created in the test's."""
    return {**document, "metadata": {"name": name}}


async def refusal(cluster: Cluster, document: Json) -> str:
    """Why an object isn't created; empty if it is."""
    if document["kind"] == "PodCliqueSet":
        document["metadata"]["namespace"] = cluster.namespace
    try:
        await cluster.client.create(document)
    except ApiError as error:
        return error.message
    return ""
