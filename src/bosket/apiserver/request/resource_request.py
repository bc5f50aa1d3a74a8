"""ResourceRequest: a request about a resource, resolved to kind, object and user.

`resolve` finds the kind that a parsed request (`request_info`) is about. Verb, namespace, name and subresource of a
`ResourceRequest` are those of the attributes that the authorizer judged: there is no second reading of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, get_args

from bosket.apiserver.objects.kind import Kind, Registry, Version
from bosket.apiserver.request.list_options import is_true
from bosket.apiserver.request.request_info import Attributes, RequestInfo
from bosket.apiserver.status import bad_request, method_not_allowed, no_such_path

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

#: Verbs that change nothing.
READING_VERBS: Final = frozenset({"get", "list", "watch"})
_VERBS: Final = frozenset(get_args(Verb))
_COLLECTION_VERBS: Final = frozenset({"list", "watch", "create", "deletecollection"})
_OBJECT_VERBS: Final = frozenset({"get", "watch", "update", "patch", "delete"})
#: What can be done with subresources, by their names; with others, what can be done with `status`.
_SUBRESOURCE_VERBS: Final = {
    "binding": ("create",),
    "eviction": ("create",),
    "token": ("create",),
    "log": ("get",),
    "finalize": ("update",),
    "exec": ("create", "get"),
    "attach": ("create", "get"),
    "portforward": ("create", "get"),
    "proxy": ("create", "delete", "get", "patch", "update"),
}
_DEFAULT_SUBRESOURCE_VERBS: Final = ("get", "patch", "update")


def subresource_verbs(name: str) -> tuple[str, ...]:
    """What can be done with a subresource."""
    return _SUBRESOURCE_VERBS.get(name, _DEFAULT_SUBRESOURCE_VERBS)


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
class ResourceRequest:
    """One request about a resource, of a kind that is served."""

    #: what the authorizer allowed
    attributes: Attributes
    user: User
    kind: Kind
    version: Version
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    #: warnings that are sent with the response, whatever its status
    warnings: list[str] = field(default_factory=list)

    @property
    def verb(self) -> Verb:
        return cast(Verb, self.attributes.verb)

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped kinds and for all namespaces. Rules see a namespace as if it were in itself."""
        return self.attributes.namespace if self.kind.namespaced else ""

    @property
    def name(self) -> str:
        """Of the object; a list or a watch that has one is about this object alone."""
        return self.attributes.name

    @property
    def subresource(self) -> str:
        return self.attributes.subresource

    @property
    def api_version(self) -> str:
        return self.kind.api_version(self.version.name)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    def flag(self, name: str) -> bool:
        return is_true(self.query.get(name))


def resolve(info: RequestInfo, user: User, registry: Registry) -> ResourceRequest:
    """The call that a request about a resource stands for; raises where there is no such path or method."""
    attributes = info.attributes
    kind = registry.at(attributes.group, attributes.resource)
    version = None if kind is None else kind.versions.get(info.version)
    if info.malformed or kind is None or version is None:
        raise no_such_path()
    if info.in_namespace and not kind.namespaced:
        raise no_such_path()
    if info.named and kind.namespaced and not attributes.namespace:
        raise no_such_path()
    if attributes.subresource and attributes.subresource not in version.subresources:
        raise no_such_path()
    if info.method_unknown or attributes.verb not in _VERBS:
        raise method_not_allowed(info.method)
    if attributes.verb not in _verbs_at(info, kind):
        raise method_not_allowed(info.method)
    if attributes.name in (".", "..") and info.named:
        raise bad_request(f"Name parameter invalid: \"{attributes.name}\": may not be '{attributes.name}'")
    return ResourceRequest(attributes, user, kind, version, info.query, info.headers, info.body)


def _verbs_at(info: RequestInfo, kind: Kind) -> frozenset[str]:
    """What can be done at the path: with an object, with a part of it, or with a collection."""
    attributes = info.attributes
    if attributes.subresource:
        return frozenset(subresource_verbs(attributes.subresource))
    verbs = (_OBJECT_VERBS if info.named else _COLLECTION_VERBS).intersection(kind.verbs)
    if kind.namespaced and not attributes.namespace:  # objects are written in their namespaces only
        verbs -= {"create", "deletecollection"}
    return verbs
