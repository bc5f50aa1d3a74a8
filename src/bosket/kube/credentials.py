"""Credentials of the client: fixed ones, a rotated token file, an exec plugin.

`bosket.kube.kubeconfig` creates a source; `bosket.kube.http` asks it before each request, and after a 401. A source
caches its credential, so asking usually costs nothing.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bosket.api.time import parse_time
from bosket.kube.errors import ConfigError, quote_beginning


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key, both PEM."""

    chain: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credential:
    """A header, a client certificate, both, or neither (anonymous)."""

    authorization: str | None = field(default=None, repr=False)
    certificate: Certificate | None = None
    expires_at: float | None = None


def bearer(token: str) -> str:
    """The Authorization header for a token."""
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header for a name and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class CredentialSource(Protocol):
    """Provides credentials. Methods may be called concurrently."""

    async def current(self) -> Credential: ...

    async def after_refusal(self, refused: Credential) -> Credential | None:
        """Another credential after the server refused one; None if there is no other."""
        ...


@dataclass(frozen=True, slots=True)
class FixedCredential:
    """A credential that never changes."""

    credential: Credential = Credential()

    async def current(self) -> Credential:
        return self.credential

    async def after_refusal(self, refused: Credential) -> Credential | None:  # noqa: ARG002 - the protocol's
        return None


class TokenFile:
    """A file with a bearer token that the kubelet renews."""

    #: The kubelet renews a token long before it expires; reading once a minute is often enough.
    READ_EVERY_SECONDS = 60.0

    def __init__(
        self, path: Path, certificate: Certificate | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._now = now
        self._cached: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        if self._cached is None or self._now() - self._read_at >= self.READ_EVERY_SECONDS:
            self._cached = self._read()
        return self._cached

    async def after_refusal(self, refused: Credential) -> Credential | None:
        self._cached = self._read()
        return self._cached if self._cached != refused else None

    def _read(self) -> Credential:
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._cached is not None:
                return self._cached  # Keep the last token: if it is no longer valid, the server answers 401.
            raise ConfigError(f"{self._path}: can't read the token: {error.strerror or error}") from error
        if not token:
            raise ConfigError(f"{self._path}: holds no token")
        self._read_at = self._now()
        return Credential(bearer(token), self._certificate)


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """An exec plugin as in the kubeconfig; `where` names file and user for error messages."""

    where: str
    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    install_hint: str = ""
    #: Cluster information for the plugin, if it asked for it.
    cluster: dict[str, Any] | None = None
    timeout_seconds: float = 60.0


class ExecPlugin:
    """Runs a program that prints an ExecCredential; runs it again when that expires or is refused."""

    #: A credential counts as expired so long before its expiry, because a request takes time.
    EXPIRY_MARGIN_SECONDS = 10.0
    #: A refusal sooner than this after a run doesn't start another run: a new credential would be refused, too.
    RUN_AT_MOST_EVERY_SECONDS = 5.0

    def __init__(
        self, command: ExecCommand, certificate: Certificate | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._command = command
        self._certificate = certificate
        self._now = now
        self._cached: Credential | None = None
        self._ran_at = 0.0
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        if self._is_good(self._cached):
            assert self._cached is not None
            return self._cached
        async with self._running:
            if not self._is_good(self._cached):
                self._cached = await self._run()
            assert self._cached is not None
            return self._cached

    async def after_refusal(self, refused: Credential) -> Credential | None:
        async with self._running:
            # Of many requests refused at once, the first runs the plugin and the others use its result.
            if self._cached == refused and self._now() - self._ran_at >= self.RUN_AT_MOST_EVERY_SECONDS:
                self._cached = await self._run()
            return self._cached if self._cached != refused else None

    def _is_good(self, credential: Credential | None) -> bool:
        if credential is None:
            return False
        return credential.expires_at is None or self._now() < credential.expires_at - self.EXPIRY_MARGIN_SECONDS

    async def _run(self) -> Credential:
        command = self._command
        spec: dict[str, Any] = {"interactive": False}
        if command.cluster is not None:
            spec["cluster"] = command.cluster
        request = {"apiVersion": command.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**os.environ, **command.env, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
        output = await _output_of(command, environment)
        self._ran_at = self._now()
        return self._parse(output)

    def _parse(self, output: bytes) -> Credential:
        where = self._command.where
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            # msgspec names the field and the types. What was printed is never quoted: it holds a credential.
            raise ConfigError(f"{where}: {self._command.command} printed no ExecCredential: {error}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{where}: {self._command.command} printed no ExecCredential: not UTF-8") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._command.api_version:
            raise ConfigError(
                f"{where}: {self._command.command} printed kind {answer.kind!r}, apiVersion {answer.api_version!r}; "
                f"asked for was ExecCredential, {self._command.api_version!r}"
            )
        status = answer.status or _ExecStatus()
        certificate = self._certificate
        if status.client_certificate_data and status.client_key_data:
            certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if not status.token and certificate is None:
            raise ConfigError(f"{where}: {self._command.command} printed neither token nor client certificate")
        expires_at = None
        if status.expiration_timestamp:
            try:
                expires_at = parse_time(status.expiration_timestamp)
            except ValueError:
                raise ConfigError(
                    f"{where}: {self._command.command}: status.expirationTimestamp is not a time such as "
                    "2026-01-02T03:04:05Z"
                ) from None
        return Credential(bearer(status.token) if status.token else None, certificate, expires_at)


async def _output_of(command: ExecCommand, environment: dict[str, str]) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            command.command,
            *command.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f" ({command.install_hint})" if command.install_hint else ""
        raise ConfigError(f"{command.where}: can't run {command.command!r}: {error.strerror or error}{hint}") from error
    try:
        output, complaint = await asyncio.wait_for(process.communicate(), command.timeout_seconds)
    except TimeoutError:
        raise ConfigError(f"{command.where}: {command.command} took more than {command.timeout_seconds:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = quote_beginning(complaint)
        raise ConfigError(f"{command.where}: {command.command} ended with status {process.returncode}: {said}")
    return output
