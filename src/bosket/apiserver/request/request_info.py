"""RequestInfo: a request, parsed once, for both authorization and execution.

`parse_request` reads method, path and query into a `RequestInfo`. The authorizer judges its `attributes`;
`resource_request.resolve` looks up the kind and makes the `ResourceRequest` around the very same attributes. Handlers
see neither the method nor the path, so that what is carried out can't differ from what was allowed. Nothing is looked
up here: a client without permission gets no hint which paths exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bosket.apiserver.request.list_options import is_true
from bosket.kube.selector import InvalidSelector, parse_fields
from bosket.kube.transport import Request

_VERBS: Final = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: Prefixes of paths that say the verb: the old spelling of watches, and one that is no longer served.
_VERB_PREFIXES: Final = ("watch", "proxy")
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


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parsed request: what rules judge (`attributes`), and what only the executor needs."""

    attributes: Attributes
    query: Mapping[str, str]
    #: by lower-case name
    headers: Mapping[str, str]
    body: bytes
    #: for refusals only
    method: str
    #: as they came, for parameters that may be given several times
    parameters: tuple[tuple[str, str], ...] = ()
    #: of the API; empty for a path
    version: str = ""
    #: the path names an object; a list or a watch may have a name from its field selector instead
    named: bool = False
    #: the path has a namespace, apart from the resource `namespaces` itself
    in_namespace: bool = False
    #: no resource has paths of this form
    malformed: bool = False
    #: the method has no meaning on such a path, whatever the resource
    method_unknown: bool = False


def parse_request(request: Request) -> RequestInfo:
    """What a request asks for. Of parameters that are given twice the first counts, as in kube-apiserver."""
    query = dict(reversed(request.query))
    headers = {key.lower(): value for key, value in request.headers.items()}
    parts = request.path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        group, version, rest = "", "", []
    prefix = ""
    if len(rest) > 1 and rest[0] in _VERB_PREFIXES:
        prefix, rest = rest[0], rest[1:]
    namespace, in_namespace = "", False
    if len(rest) > 1 and rest[0] == "namespaces":
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest, in_namespace = rest[2:], True
    if not rest or not rest[0]:
        attributes = Attributes(request.method.lower(), path=request.path)
        return RequestInfo(attributes, query, headers, request.body, request.method, request.query)
    verb = prefix or _VERBS.get(request.method, "")
    name = rest[1] if len(rest) > 1 else ""
    named = bool(name)
    subresource = rest[2] if len(rest) > 2 and prefix != "proxy" else ""
    if not name:
        verb, name = _of_collection(verb, query)
    return RequestInfo(
        Attributes(verb, group, rest[0], subresource, namespace, name),
        query,
        headers,
        request.body,
        request.method,
        request.query,
        version,
        named,
        in_namespace,
        malformed=(
            prefix == "proxy"
            or bool(prefix and subresource)
            or len(rest) > 3
            or "" in rest
            or not version
            or request.path.startswith("//")
        ),
        method_unknown=request.method == "HEAD" or (bool(prefix) and request.method != "GET"),
    )


def _of_collection(verb: str, query: Mapping[str, str]) -> tuple[str, str]:
    """The verb on a collection, and the one name that is asked for, if the selector says so."""
    if verb == "delete":
        return "deletecollection", ""
    if verb not in ("get", "watch"):
        return verb, ""
    try:
        name = parse_fields(query.get("fieldSelector", "")).value_of("metadata.name") or ""
    except InvalidSelector:
        name = ""
    return "watch" if verb == "watch" or is_true(query.get("watch")) else "list", name
