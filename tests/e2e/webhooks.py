"""Takes a service's webhooks away again: those that nobody serves would refuse the objects of all other tests."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from bosket.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from bosket.api.core import Secret
from bosket.api.keys import SYSTEM_NAMESPACE
from bosket.kube.errors import NotFound
from tests.e2e.cluster import Cluster


async def withdraw_webhooks(
    cluster: Cluster, service: str, *, validating: Iterable[str], mutating: str, secret: str
) -> None:
    """The service ends, and nobody is asked."""
    with suppress(KeyError):
        await cluster.stop_service(service)
    for name in validating:
        with suppress(NotFound):
            await cluster.client.delete(ValidatingWebhookConfiguration, name)
    with suppress(NotFound):
        await cluster.client.delete(MutatingWebhookConfiguration, mutating)
    with suppress(NotFound):
        await cluster.client.delete(Secret, secret, SYSTEM_NAMESPACE)
