"""The address of a webhook. A service is looked up in the store, as everything on this machine can be reached:

- of type ExternalName: the host that it names;
- otherwise the first of its Endpoints, loopback or not, at the port that they have; there is no network behind a
  ClusterIP here, so its own address is never tried.

Whoever is reached must show a certificate for `NAME.NAMESPACE.svc`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from bosket.apiserver.admission.webhook.hook import Target
from bosket.apiserver.store.store import Store

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
        self._services = store.resource("", "services")
        self._endpoints = store.resource("", "endpoints")

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
        endpoints = self._endpoints.get(namespace, name)
        if endpoints is None:
            return
        for subset in endpoints.decode().get("subsets") or ():
            for port in subset.get("ports") or ():
                if (port.get("name") or "") == port_name and port.get("port"):
                    for address in subset.get("addresses") or ():
                        yield address["ip"], port["port"]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
