"""A request, understood: who asks what of which object.

`parse_call` turns method, path and query into a `Call`; paths that name no resource (discovery, health) give None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bosket.apiserver.kind import Kind, Registry, Version
from bosket.apiserver.list_options import is_true
from bosket.apiserver.status import method_not_allowed, no_such_path
from bosket.kube.transport import Request

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

_COLLECTION_VERBS: dict[str, Verb] = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OBJECT_VERBS: dict[str, Verb] = {
    "GET": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
}


@dataclass(frozen=True, slots=True)
class User:
    """Who is asking."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    #: what else is known of them, by key
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def info(self) -> dict[str, Any]:
        """The user as reviews have it (`UserInfo`)."""
        info: dict[str, Any] = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


@dataclass(frozen=True, slots=True)
class Call:
    """One request about a resource. `namespace` is empty for cluster-scoped kinds and for all namespaces."""

    verb: Verb
    user: User
    kind: Kind
    version: Version
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    #: what the client is told beside the answer, whatever that is
    warnings: list[str] = field(default_factory=list)

    @property
    def api_version(self) -> str:
        return self.kind.api_version(self.version.name)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def flag(self, name: str) -> bool:
        return is_true(self.query.get(name))


def parse_call(request: Request, user: User, registry: Registry) -> Call | None:
    """The call that a request to `/api/…` or `/apis/…` stands for; None if its path names no resource."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version_name, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version_name, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch_path = rest[0] == "watch" and len(rest) > 1
    if watch_path:  # the old spelling: /api/v1/watch/pods
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_namespace_subresource(group, rest):
        namespace, rest = rest[1], rest[2:]
    plural = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:])
    kind = registry.at(group, plural)
    version = None if kind is None else kind.versions.get(version_name)
    if kind is None or version is None or (namespace and not kind.namespaced):
        raise no_such_path()
    if name and kind.namespaced and not namespace:
        raise no_such_path()
    if subresource and subresource not in version.subresources:
        raise no_such_path()
    query = dict(request.query)
    verb = (_OBJECT_VERBS if name else _COLLECTION_VERBS).get(request.method)
    if verb is None or (name and verb == "create" and not subresource):
        raise method_not_allowed(request.method)
    if verb in ("get", "list") and not subresource and (watch_path or (not name and is_true(query.get("watch")))):
        if name:  # only the old spelling watches one object
            query["fieldSelector"] = f"metadata.name={name}"
        verb = "watch"
    if not subresource and verb not in kind.verbs:
        raise method_not_allowed(request.method)
    headers = {key.lower(): value for key, value in request.headers.items()}
    return Call(verb, user, kind, version, namespace, name, subresource, query, headers, request.body)


def _is_namespace_subresource(group: str, rest: list[str]) -> bool:
    """`namespaces/x/status` is about the namespace, `namespaces/x/pods` about what is in it."""
    return group == "" and len(rest) == 3 and rest[2] in ("status", "finalize")
