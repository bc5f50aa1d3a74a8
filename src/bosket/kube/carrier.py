"""Settings of the HTTP transport (`ClusterConfig`, `Limits`), and the interface of its connections (`Carrier`).

A carrier has the connections made with one client certificate. There are two: directly to the server (`http`), and
through a proxy (`proxied_http`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from bosket.kube.credentials import Certificate, CredentialSource, FixedCredential
from bosket.kube.http_connection import Head

#: How long an idle connection is kept.
KEEP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """A server, its CA bundle, and the client's credentials. Certificates are PEM text."""

    server: str
    credentials: CredentialSource = field(default_factory=FixedCredential)
    #: None: the system's certificate authorities.
    certificate_authority: bytes | None = None
    verify_server: bool = True
    tls_server_name: str | None = None
    proxy_url: str | None = None
    compression: bool = True
    #: Impersonation headers.
    impersonation: tuple[tuple[str, str], ...] = ()
    #: The namespace that the context, or the pod, is in.
    namespace: str = "default"
    #: Extensions of other programs in the kubeconfig, by name.
    extensions: Mapping[str, Any] = field(default_factory=dict)


class NeverSent(OSError):
    """The server was not reached, so the request was certainly not carried out."""


class Outgoing(NamedTuple):
    """A request as it goes out. `target`: path and query below the server's address, percent-encoded."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class AnswerStream(Protocol):
    """An answer whose body is read as it arrives."""

    @property
    def head(self) -> Head: ...

    async def read(self) -> bytes:
        """The next chunk; empty at the end."""
        ...

    async def close(self) -> None: ...


class Carrier(Protocol):
    """The connections made with one client certificate. Raises OSError (`NeverSent`), TimeoutError, ValueError."""

    certificate: Certificate | None

    async def ask(self, request: Outgoing, timeout_seconds: float) -> tuple[Head, bytes]: ...

    async def open(self, request: Outgoing) -> AnswerStream: ...

    async def aclose(self) -> None: ...


class Limits(NamedTuple):
    """Timeouts, and the maximum number of connections for requests."""

    connect_seconds: float
    idle_seconds: float
    connections: int
