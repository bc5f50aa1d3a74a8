"""Who services are in end-to-end tests: each its own account, with the roles of the installation and nothing else.

They act as their accounts by impersonation, so that nobody has to wait for tokens. Parts of a cluster that have no
account (simulated devices, storage) act as whoever the kubeconfig names.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import yaml

from bosket.embedded.bootstrap import create_if_absent
from bosket.install.account import account_of
from bosket.install.right import read_rights
from bosket.install.role import DEFAULT_NAMESPACES, role_objects
from bosket.kube.client import Client
from bosket.kube.http import HttpTransport
from bosket.kube.kubeconfig import find
from bosket.kube.transport import Request, Response, Stream, Transport
from tests.install.recording import OUTPUT


async def give_rights(client: Client, service: str) -> None:
    """The service's account gets the roles that the installation has for it."""
    account = account_of(service)
    if account is None:
        return
    for each in role_objects(account, read_rights()[account.name], DEFAULT_NAMESPACES):
        await create_if_absent(client, each)


def connect_as(kubeconfig: Path, service: str, refused: list[str]) -> Client:
    """A client that acts as the service's account; what roles don't allow it is added to `refused`."""
    return Client(_Watched(HttpTransport(find(kubeconfig_of(kubeconfig, service))), refused))


def kubeconfig_of(kubeconfig: Path, service: str) -> Path:
    """The kubeconfig of whoever acts as the service's account."""
    account = account_of(service)
    if account is None or OUTPUT in os.environ:  # what a service asks for is found out while it may do everything
        return kubeconfig
    own = kubeconfig.with_name(f"{kubeconfig.name}-{service}")
    if not own.exists():
        document = yaml.safe_load(kubeconfig.read_text())
        home = DEFAULT_NAMESPACES["reservation" if account.in_reservation_namespace else "own"]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
        for user in document["users"]:
            user["user"] |= {"as": f"system:serviceaccount:{home}:{account.name}", "as-groups": groups}
        own.touch(mode=0o600)
        own.write_text(yaml.safe_dump(document))
    return own


class _Watched:
    """Notes the requests that are refused for want of a role; other refusals (a namespace that ends) are no concern."""

    def __init__(self, inner: Transport, refused: list[str]) -> None:
        self._inner = inner
        self._refused = refused

    async def request(self, request: Request) -> Response:
        answer = await self._inner.request(request)
        if answer.status == 403 and b"in API group" in answer.body:
            self._refused.append(str(msgspec.json.decode(answer.body)["message"]))
        return answer

    async def stream(self, request: Request) -> Stream:
        stream = await self._inner.stream(request)
        if stream.status == 403:
            self._refused.append(f"watch {request.path}")
        return stream

    async def aclose(self) -> None:
        await self._inner.aclose()
