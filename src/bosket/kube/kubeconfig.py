"""Server and credentials of a client: from kubeconfig files, or a pod's service account.

`connect` is what programs call. `load` follows kubectl: an explicit file, else those that KUBECONFIG names, else
`~/.kube/config`; of several files the first to define a name wins, and paths in a file are relative to it. Everything
that is wrong is said with file and field (`ConfigError`) before the first request.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bosket.kube.carrier import ClusterConfig
from bosket.kube.credentials import (
    Certificate,
    Credential,
    CredentialSource,
    ExecCommand,
    ExecPlugin,
    FixedCredential,
    TokenFile,
    basic,
    bearer,
)
from bosket.kube.errors import ConfigError, MissingKubeconfig
from bosket.kube.kubeconfig_file import ClusterEntry, ExecEntry, Sourced, UserEntry, read

if TYPE_CHECKING:
    from bosket.kube.client import Client

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def connect(kubeconfig: str | Path | None = None, context: str | None = None) -> Client:
    """A client for the cluster that the kubeconfig names, or, where there is none, for the one this pod runs in."""
    from bosket.kube.client import Client
    from bosket.kube.http import HttpTransport

    return Client(HttpTransport(find(kubeconfig, context)))


def find(
    kubeconfig: str | Path | None = None, context: str | None = None, *, service_account: Path = SERVICE_ACCOUNT
) -> ClusterConfig:
    """What `connect` talks to."""
    in_pod = kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ
    if in_pod and not any(path.exists() for path in kubeconfig_files(None)):
        return in_cluster(service_account)
    return load(kubeconfig, context)


def load(path: str | Path | None = None, context: str | None = None) -> ClusterConfig:
    """The cluster and user of a context (the current one, if none is named)."""
    paths = kubeconfig_files(path)
    present = [each for each in paths if each.exists()]
    if not present or (path is not None and len(present) < len(paths)):
        raise MissingKubeconfig(f"no kubeconfig: {' and '.join(map(str, paths))} not found")
    merged = read(present)
    files = ", ".join(map(str, present))
    name = context or merged.current_context
    if not name:
        raise ConfigError(f"{files}: current-context is not set, and no context was asked for")
    chosen = merged.contexts.get(name)
    if chosen is None:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise ConfigError(f"{files}: there is no context {name!r}; there are: {known}")
    cluster = merged.clusters.get(chosen.entry.cluster)
    if cluster is None:
        raise chosen.problem("cluster", f"is {chosen.entry.cluster!r}, which is not among the clusters")
    user = merged.users.get(chosen.entry.user)
    if user is None and chosen.entry.user:
        raise chosen.problem("user", f"is {chosen.entry.user!r}, which is not among the users")
    return _cluster_config(cluster, user, chosen.entry.namespace or "default")


def in_cluster(service_account: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The cluster that this process runs in, as the pod's service account; its token is read again as it is renewed."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    namespace = service_account / "namespace"
    return ClusterConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(service_account / "token"),
        certificate_authority=_read(service_account / "ca.crt", "service account"),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def kubeconfig_files(path: str | Path | None) -> list[Path]:
    """The files that are looked at: the one that is named, else those of the environment, else the home directory's."""
    if path is not None:
        return [Path(path)]
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return named or [Path.home() / ".kube" / "config"]


def _cluster_config(cluster: Sourced[ClusterEntry], user: Sourced[UserEntry] | None, namespace: str) -> ClusterConfig:
    entry = cluster.entry
    if not entry.server.startswith(("https://", "http://")):
        raise cluster.problem("server", f"is {entry.server!r}, which is not an http or https URL")
    authority = _pem(cluster, "certificate-authority", entry.certificate_authority, entry.certificate_authority_data)
    if authority is not None and entry.insecure_skip_tls_verify:
        raise cluster.problem("insecure-skip-tls-verify", "is true, but a certificate authority is given as well")
    return ClusterConfig(
        server=entry.server.rstrip("/"),
        credentials=_credentials(user, cluster, authority) if user else FixedCredential(),
        certificate_authority=authority,
        verify_server=not entry.insecure_skip_tls_verify,
        tls_server_name=entry.tls_server_name or None,
        proxy_url=entry.proxy_url or None,
        compression=not entry.disable_compression,
        impersonation=_impersonation(user.entry) if user else (),
        namespace=namespace,
        extensions={str(each.get("name", "")): each.get("extension") for each in entry.extensions},
    )


def _credentials(user: Sourced[UserEntry], cluster: Sourced[ClusterEntry], authority: bytes | None) -> CredentialSource:
    entry = user.entry
    if entry.auth_provider is not None:
        raise user.problem("auth-provider", "is not supported any more, by Kubernetes neither; use exec")
    certificate = _client_certificate(user)
    if entry.exec is not None:
        return ExecPlugin(_exec_command(user, entry.exec, cluster, authority), certificate)
    if entry.token_file:
        return TokenFile(user.resolve(entry.token_file), certificate)
    authorization = None
    if entry.token:
        authorization = bearer(entry.token)
    elif entry.username:
        authorization = basic(entry.username, entry.password)
    return FixedCredential(Credential(authorization, certificate))


def _client_certificate(user: Sourced[UserEntry]) -> Certificate | None:
    entry = user.entry
    chain = _pem(user, "client-certificate", entry.client_certificate, entry.client_certificate_data)
    key = _pem(user, "client-key", entry.client_key, entry.client_key_data)
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        present, missing = ("client-certificate", "client-key") if key is None else ("client-key", "client-certificate")
        raise user.problem(missing, f"is missing, though {present} is given")
    return Certificate(chain, key)


def _exec_command(
    user: Sourced[UserEntry], plugin: ExecEntry, cluster: Sourced[ClusterEntry], authority: bytes | None
) -> ExecCommand:
    if plugin.api_version not in _EXEC_VERSIONS:
        raise user.problem("exec.apiVersion", f"is {plugin.api_version!r}, not one of {', '.join(_EXEC_VERSIONS)}")
    if plugin.interactive_mode == "Always":
        raise user.problem("exec.interactiveMode", "is 'Always', but there is nobody to talk to")
    if not plugin.command:
        raise user.problem("exec.command", "is empty")
    # As a shell does, and kubectl: a bare name is looked up in PATH, anything with a slash is a path.
    command = str(user.resolve(plugin.command)) if os.sep in plugin.command else plugin.command
    return ExecCommand(
        where=f"{user.file}: {user.label}.exec",
        command=command,
        api_version=plugin.api_version,
        args=tuple(plugin.args or ()),
        env={variable.name: variable.value for variable in plugin.env or ()},
        install_hint=plugin.install_hint,
        cluster=_cluster_for_plugin(cluster.entry, authority) if plugin.provide_cluster_info else None,
    )


def _cluster_for_plugin(entry: ClusterEntry, authority: bytes | None) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": entry.server}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if entry.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if entry.tls_server_name:
        cluster["tls-server-name"] = entry.tls_server_name
    if entry.proxy_url:
        cluster["proxy-url"] = entry.proxy_url
    for extension in entry.extensions:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            cluster["config"] = extension.get("extension")
    return cluster


def _impersonation(entry: UserEntry) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", entry.as_)] if entry.as_ else []
    if entry.as_uid:
        headers.append(("Impersonate-Uid", entry.as_uid))
    headers += [("Impersonate-Group", group) for group in entry.as_groups]
    headers += [(f"Impersonate-Extra-{key}", value) for key, values in entry.as_user_extra.items() for value in values]
    return tuple(headers)


def _pem(source: Sourced[Any], name: str, file: str, data: str) -> bytes | None:
    """A certificate or key, given inline or as a file; inline wins, as in kubectl."""
    if data:
        try:
            content, label = base64.b64decode(data, validate=True), f"{name}-data"
        except binascii.Error as error:
            raise source.problem(f"{name}-data", f"is not base64: {error}") from None
    elif file:
        content, label = _read(source.resolve(file), f"{source.file}: {source.label}.{name}"), name
    else:
        return None
    if b"-----BEGIN " not in content:
        raise source.problem(label, "is not PEM: it has no line that begins with -----BEGIN")
    return content


def _read(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: can't read {path}: {error.strerror or error}") from error
