"""The identity of an embedded cluster: certificate authority, administrator's token, port.

With a data directory the identity survives restarts, so that kubeconfigs stay valid.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from bosket.api.core import ConfigMap
from bosket.api.object import ObjectMeta
from bosket.apiserver.persistence.directory import DataDirectory
from bosket.embedded.controllers.service_account_token import ROOT_CERTIFICATE
from bosket.kube.client import Client
from bosket.kube.errors import AlreadyExists
from bosket.runtime.certificates import Authority, make_authority

_AUTHORITY_NAME = "bosket embedded cluster"
#: What stands between the certificate and the key of the authority, which are kept as one.
_SEPARATOR = b"\0"
_PORT = "port"
_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """What clients recognise a cluster by; `port` is 0 before it had one."""

    authority: Authority
    admin_token: str
    port: int


def identity_of(data: DataDirectory | None) -> Identity:
    """The identity that is kept, or a new one."""
    if data is None:
        return Identity(make_authority(_AUTHORITY_NAME), _new_token().decode(), 0)
    certificate, _, key = data.remembered("authority", _new_authority).partition(_SEPARATOR)
    token = data.remembered("admin-token", _new_token).decode()
    return Identity(Authority(certificate, key), token, int(data.database.memo(_PORT) or 0))


def remember_port(data: DataDirectory, port: int) -> None:
    """Be there again the next time."""
    data.database.put_memo(_PORT, str(port).encode())


def _new_authority() -> bytes:
    made = make_authority(_AUTHORITY_NAME)
    return made.cert_pem + _SEPARATOR + made.key_pem


def _new_token() -> bytes:
    return secrets.token_urlsafe(32).encode()


async def publish_authorities(client: Client, authority_pem: bytes) -> None:
    """Tell other servers of the cluster whose certificates the API server believes, and pods whose it shows."""
    # Those who may say on whose behalf they ask have certificates of another authority. There is no proxy before this
    # server, so nobody gets one: its key is forgotten at once.
    proxies_pem = make_authority("bosket front proxies").cert_pem
    data = {
        "client-ca-file": authority_pem.decode(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": proxies_pem.decode(),
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    await _publish(client, "extension-apiserver-authentication", data)
    await _publish(client, ROOT_CERTIFICATE, {"ca.crt": authority_pem.decode()})


async def _publish(client: Client, name: str, data: dict[str, str]) -> None:
    try:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=_NAMESPACE), data=data))
    except AlreadyExists:
        await client.patch(ConfigMap, name, {"data": data}, namespace=_NAMESPACE)
