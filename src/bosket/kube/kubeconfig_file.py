"""Kubeconfig files as they are written: shape, checks, and how several become one.

Only `bosket.kube.kubeconfig` reads these. Each entry remembers the file it came from, for relative paths and messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.kube.errors import ConfigError

T = TypeVar("T")


class _Kebab(msgspec.Struct, rename="kebab"):
    pass


class ClusterEntry(_Kebab):
    """A server, as a kubeconfig has it."""

    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[dict[str, Any]] = []


class _EnvironmentVariable(msgspec.Struct):
    name: str
    value: str


class ExecEntry(msgspec.Struct, rename="camel"):
    """An exec plugin, as a kubeconfig has it."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_EnvironmentVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class UserEntry(_Kebab):
    """Ways to prove who one is, as a kubeconfig has them."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecEntry | None = None
    auth_provider: dict[str, Any] | None = None
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class ContextEntry(_Kebab):
    """A cluster, a user and a namespace, by name."""

    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Kebab):
    name: str
    cluster: ClusterEntry


class _NamedUser(_Kebab):
    name: str
    user: UserEntry | None = None


class _NamedContext(_Kebab):
    name: str
    context: ContextEntry


class _File(_Kebab):
    kind: str = "Config"
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(frozen=True, slots=True)
class Sourced(Generic[T]):
    """An entry, the file that it stands in, and what it is called there (`users[admin].user`)."""

    entry: T
    file: Path
    label: str

    def problem(self, field_name: str, what: str) -> ConfigError:
        """An error that names file and field."""
        return ConfigError(f"{self.file}: {self.label}.{field_name} {what}")

    def resolve(self, path: str) -> Path:
        """A path in the entry; relative ones start at the file."""
        return self.file.parent / Path(path).expanduser()


@dataclass(slots=True)
class Merged:
    """All entries of all files. Of two with one name, the one read first counts."""

    current_context: str = ""
    clusters: dict[str, Sourced[ClusterEntry]] = field(default_factory=dict)
    users: dict[str, Sourced[UserEntry]] = field(default_factory=dict)
    contexts: dict[str, Sourced[ContextEntry]] = field(default_factory=dict)


def read(paths: Iterable[Path]) -> Merged:
    """The content of all these files; raises `ConfigError` where one can't be read or understood."""
    merged = Merged()
    for path in paths:
        parsed = _parse(path)
        merged.current_context = merged.current_context or parsed.current_context or ""
        for cluster in parsed.clusters or ():
            merged.clusters.setdefault(
                cluster.name, Sourced(cluster.cluster, path, f"clusters[{cluster.name}].cluster")
            )
        for user in parsed.users or ():
            merged.users.setdefault(user.name, Sourced(user.user or UserEntry(), path, f"users[{user.name}].user"))
        for context in parsed.contexts or ():
            merged.contexts.setdefault(
                context.name, Sourced(context.context, path, f"contexts[{context.name}].context")
            )
    return merged


def _parse(path: Path) -> _File:
    try:
        document = read_yaml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: can't read the kubeconfig: {error.strerror or error}") from error
    except UnreadableDocument as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        parsed = msgspec.convert(document if document is not None else {}, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from None
    if parsed.kind != "Config":
        raise ConfigError(f"{path}: kind is {parsed.kind!r}, a kubeconfig's is 'Config'")
    return parsed
