"""Keeps webhook configurations as they should be, so that API servers call our webhooks.

What they say is each service's own; `Reach` is how webhooks are reached, the same for all of a service.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from bosket.api.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
    WebhookClientConfig,
    WebhookServiceReference,
)
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists, Conflict, NotFound
from bosket.runtime.webhook.serving_certificate import Names

#: What an API server waits for an answer.
TIMEOUT_SECONDS: Final = 10
_ATTEMPTS: Final = 5

Configuration: TypeAlias = MutatingWebhookConfiguration | ValidatingWebhookConfiguration


@dataclass(frozen=True, slots=True)
class Reach:
    """How API servers reach the webhooks: by a URL without a path, or, if that is empty, as a service."""

    namespace: str
    service_name: str
    url: str = ""
    service_port: int = 443

    def client_config(self, path: str, trusted_pem: bytes) -> WebhookClientConfig:
        """What a webhook's configuration says; nobody is trusted where no certificates are given."""
        ca_bundle = base64.b64encode(trusted_pem).decode()
        if self.url:
            return WebhookClientConfig(url=f"{self.url.rstrip('/')}{path}", caBundle=ca_bundle)
        service = WebhookServiceReference(
            namespace=self.namespace, name=self.service_name, path=path, port=self.service_port
        )
        return WebhookClientConfig(service=service, caBundle=ca_bundle)

    @property
    def names(self) -> Names:
        """What API servers call us: as a service, and as the host of the URL if there is one."""
        service_name = f"{self.service_name}.{self.namespace}"
        dns = [f"{service_name}.svc", service_name, f"{service_name}.svc.cluster.local"]
        ips: list[str] = []
        host = urlsplit(self.url).hostname if self.url else None
        if host:
            try:
                ips.append(str(ipaddress.ip_address(host)))
            except ValueError:
                dns.append(host)
        return Names(tuple(dns), tuple(ips))


async def register(client: Client, desired: Sequence[Configuration], *, create: bool = True) -> list[str]:
    """Make the cluster's configurations like these; gives the names of those that weren't.

    Where a webhook trusts nobody, whom it trusts already stays: somebody else sees to that. Without `create`, those
    that aren't there aren't wanted: whoever deploys us makes them, and takes them away.
    """
    return [each.metadata.name for each in desired if await _keep(client, each, create=create)]


async def _keep(client: Client, desired: Configuration, *, create: bool) -> bool:
    for _ in range(_ATTEMPTS):
        try:
            return await _write(client, desired, create=create)
        except (AlreadyExists, Conflict):
            continue  # another replica was faster, and wrote the same unless it was started otherwise
    return False


async def _write(client: Client, desired: Configuration, *, create: bool) -> bool:
    try:
        found = cast(Configuration, await client.get(type(desired), desired.metadata.name))
    except NotFound:
        if create:
            await client.create(desired)
        return create
    labels = {**found.metadata.labels, **desired.metadata.labels}
    webhooks = _trusting_as_before(found, desired).webhooks
    wanted = replace(found, webhooks=webhooks, metadata=replace(found.metadata, labels=labels))
    if wanted == found:
        return False
    await client.modify(found, wanted)
    return True


def _trusting_as_before(found: Configuration, desired: Configuration) -> Configuration:
    trusted = {each.name: each.clientConfig.caBundle for each in found.webhooks}
    webhooks = tuple(
        each
        if each.clientConfig.caBundle
        else replace(each, clientConfig=replace(each.clientConfig, caBundle=trusted.get(each.name, "")))
        for each in desired.webhooks
    )
    return replace(desired, webhooks=webhooks)
