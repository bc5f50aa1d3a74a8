"""A request as rules see it. It is read off method, path and query alone: who may not ask isn't told what there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bosket.apiserver.call import User
from bosket.apiserver.list_options import is_true
from bosket.apiserver.status import StatusError, qualified
from bosket.kube.selector import InvalidSelector, parse_fields
from bosket.kube.transport import Request

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES: Final = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for: something of a resource, or a path where `resource` is empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: `pods`, `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(request: Request) -> Attributes:
    """What a request asks for."""
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes(request.method.lower(), path=request.path)
    verb = _VERBS.get(request.method, "")
    if rest[0] in ("watch", "proxy") and len(rest) > 1:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if not name:
        verb, name = _of_collection(verb, request)
    return Attributes(verb, group, rest[0], subresource, namespace, name)


def _of_collection(verb: str, request: Request) -> tuple[str, str]:
    """The verb on a collection, and the one name that is asked for, if the selector says so."""
    if verb == "delete":
        return "deletecollection", ""
    if verb != "get":
        return verb, ""
    query = dict(request.query)
    try:
        name = parse_fields(query.get("fieldSelector", "")).value_of("metadata.name") or ""
    except InvalidSelector:
        name = ""
    return "watch" if is_true(query.get("watch")) else "list", name


def refusal_of(user: User, asked: Attributes, reason: str = "") -> StatusError:
    """The 403 that says who can't do what."""
    tail = f": {reason}" if reason else ""
    if not asked.resource:
        message = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"{tail}'
        return StatusError(403, "Forbidden", message)
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    resource = qualified(asked.resource, asked.group)
    named = f'{resource} "{asked.name}"' if asked.name else resource
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {asked.verb} resource "{asked.combined}" '
        f'in API group "{asked.group}" {where}{tail}'
    )
    return StatusError(403, "Forbidden", message, group=asked.group, kind=asked.resource, name=asked.name)
