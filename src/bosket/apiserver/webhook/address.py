"""Where a webhook is. A service is looked up in the store, as everything on this machine can be reached:

- of type ExternalName: the host that it names;
- otherwise one of its ready endpoints (EndpointSlices, else Endpoints of its name), loopback or not, at the port that
  theirs has; there is no network behind a ClusterIP here, so its own address is never tried.

Whoever is reached must show a certificate for `NAME.NAMESPACE.svc`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from bosket.apiserver.store import Doc, Store
from bosket.apiserver.webhook.hook import Target

_SERVICE_LABEL = "kubernetes.io/service-name"
_DEFAULT_PORT = 443


class NoAddress(Exception):
    """There is nobody at the address; says why."""


@dataclass(frozen=True, slots=True)
class Address:
    """What is connected to, and whose certificate must be shown there."""

    url: str
    #: as messages have it
    shown: str
    server_name: str


class AddressBook:
    """Finds webhooks."""

    def __init__(self, store: Store) -> None:
        self._services = store.shelf("", "services")
        self._slices = store.shelf("discovery.k8s.io", "endpointslices")
        self._endpoints = store.shelf("", "endpoints")

    def find(self, target: Target, timeout_seconds: int) -> Address:
        query = f"timeout={timeout_seconds}s"
        if target.service is None:
            url = f"{target.url}{'&' if '?' in target.url else '?'}{query}"
            return Address(url, url, urlsplit(target.url).hostname or "")
        service = target.service
        name, namespace = service["name"], service["namespace"]
        port = service.get("port") or _DEFAULT_PORT
        path = (service.get("path") or "/").lstrip("/")
        server_name = f"{name}.{namespace}.svc"
        host, number = self._resolve(namespace, name, port)
        shown = f"https://{server_name}:{port}/{path}?{query}"
        return Address(f"https://{_bracketed(host)}:{number}/{path}?{query}", shown, server_name)

    def _resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        entry = self._services.get(namespace, name)
        if entry is None:
            raise NoAddress(f'service "{name}" not found')
        spec = entry.decode().get("spec") or {}
        if spec.get("type") == "ExternalName":
            return spec.get("externalName", ""), port
        asked = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
        if asked is None:
            raise NoAddress(f"no service port {port} found for service {name}")
        found = next(self._ready(namespace, name, asked.get("name", "")), None)
        if found is None:
            raise NoAddress(f'no endpoints available for service "{name}"')
        return found

    def _ready(self, namespace: str, name: str, port_name: str) -> Iterator[tuple[str, int]]:
        for entry in self._slices.entries(namespace):
            if entry.labels.get(_SERVICE_LABEL) == name:
                part = entry.decode()
                ready = (
                    each for each in part.get("endpoints") or () if (each.get("conditions") or {}).get("ready", True)
                )
                addresses = [address for each in ready for address in each.get("addresses") or ()]
                yield from _at_port(addresses, part.get("ports"), port_name)
        endpoints = self._endpoints.get(namespace, name)
        if endpoints is not None:
            for subset in endpoints.decode().get("subsets") or ():
                addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
                yield from _at_port(addresses, subset.get("ports"), port_name)


def _at_port(addresses: list[str], ports: list[Doc] | None, name: str) -> Iterator[tuple[str, int]]:
    for port in ports or ():
        if (port.get("name") or "") == name and port.get("port"):
            for address in addresses:
                yield address, port["port"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
