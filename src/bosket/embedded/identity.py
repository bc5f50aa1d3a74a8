"""Who an embedded cluster is to those outside: its authority, its administrator's token, the port it is reached at.

With a data directory it stays who it was, so that kubeconfigs and clients go on working after a restart.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from bosket.apiserver.storage.directory import DataDirectory
from bosket.runtime.certificates import Authority, make_authority

_AUTHORITY_NAME = "bosket embedded cluster"
#: What stands between the certificate and the key of the authority, which are kept as one.
_SEPARATOR = b"\0"
_PORT = "port"


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
