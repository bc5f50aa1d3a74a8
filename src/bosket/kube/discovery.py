"""Which kinds a server serves: aggregated discovery where it is offered, the older endpoints where not.

Called by `Client.discover`. The result has one `Resource[dict]` per kind and version, in the server's order (its
preferred versions first).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bosket.api.resource import Resource
from bosket.kube.codec import unexpected
from bosket.kube.errors import ApiError, NotFound, quote_beginning
from bosket.kube.transport import Response

log = logging.getLogger(__name__)

#: Sends a GET of a path with an Accept header; raises `ApiError` on failure.
Fetch = Callable[[str, str], Awaitable[Response]]
DynamicResource = Resource[dict[str, Any]]

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
_LEGACY = "application/json"


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _Kind(_Wire):
    kind: str = ""


class _Subresource(_Wire):
    subresource: str


class _AggregatedResource(_Wire):
    resource: str
    response_kind: _Kind | None = None
    scope: str = "Namespaced"
    short_names: list[str] | None = None
    categories: list[str] | None = None
    subresources: list[_Subresource] | None = None


class _AggregatedVersion(_Wire):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = "Current"


class _Name(_Wire):
    name: str = ""


class _AggregatedGroup(_Wire):
    metadata: _Name = msgspec.field(default_factory=_Name)
    versions: list[_AggregatedVersion] | None = None


class _AggregatedList(_Wire):
    kind: str = ""
    items: list[_AggregatedGroup] | None = None


class _Version(_Wire):
    group_version: str


class _Group(_Wire):
    versions: list[_Version] | None = None


class _GroupList(_Wire):
    groups: list[_Group] | None = None


class _CoreVersions(_Wire):
    versions: list[str] | None = None


class _LegacyResource(_Wire):
    name: str
    namespaced: bool = False
    kind: str = ""
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _ResourceList(_Wire):
    group_version: str = ""
    resources: list[_LegacyResource] | None = None


async def discover(fetch: Fetch) -> list[DynamicResource]:
    """All kinds of the server."""
    found: list[DynamicResource] = []
    for root in ("/api", "/apis"):
        response = await fetch(root, _AGGREGATED)
        groups = _decode(response, _AggregatedList)
        if groups.kind == "APIGroupDiscoveryList":
            for group in groups.items or ():
                found += _resources_of_group(group)
        else:
            found += await _discover_one_by_one(fetch, root, response)
    return found


def _resources_of_group(group: _AggregatedGroup) -> list[DynamicResource]:
    name = group.metadata.name
    found: list[DynamicResource] = []
    for version in group.versions or ():
        if version.freshness == "Stale":
            log.warning("the server's knowledge of API group %s/%s is stale", name, version.version)
        found += [
            Resource(
                group=name,
                version=version.version,
                kind=each.response_kind.kind if each.response_kind else "",
                plural=each.resource,
                struct=dict,
                namespaced=each.scope == "Namespaced",
                short_names=tuple(each.short_names or ()),
                categories=tuple(each.categories or ()),
                subresources=tuple(sub.subresource for sub in each.subresources or ()),
            )
            for each in version.resources or ()
        ]
    return found


async def _discover_one_by_one(fetch: Fetch, root: str, response: Response) -> list[DynamicResource]:
    if root == "/api":
        versions = _decode(response, _CoreVersions).versions or []
    else:
        groups = _decode(response, _GroupList).groups or []
        versions = [version.group_version for group in groups for version in group.versions or ()]
    found: list[DynamicResource] = []
    for version in versions:
        try:
            found += await _resources_of_version(fetch, root, version)
        except NotFound:
            continue  # It went away in between.
        except ApiError as error:
            # A group served by an extension that is down must not hide the others.
            log.warning("the kinds of API group %s can't be listed: %s", version, error)
    return found


async def _resources_of_version(fetch: Fetch, root: str, group_version: str) -> list[DynamicResource]:
    listed = _decode(await fetch(f"{root}/{group_version}", _LEGACY), _ResourceList).resources or []
    group, _, version = group_version.rpartition("/")
    subresources: dict[str, list[str]] = {}
    for each in listed:
        parent, slash, subresource = each.name.partition("/")
        if slash:
            subresources.setdefault(parent, []).append(subresource)
    return [
        Resource(
            group=group,
            version=version,
            kind=each.kind,
            plural=each.name,
            struct=dict,
            namespaced=each.namespaced,
            short_names=tuple(each.short_names or ()),
            categories=tuple(each.categories or ()),
            subresources=tuple(subresources.get(each.name, ())),
        )
        for each in listed
        if "/" not in each.name
    ]


def _decode(response: Response, wanted: type[Any]) -> Any:
    try:
        return msgspec.json.decode(response.body, type=wanted)
    except msgspec.MsgspecError as error:
        raise unexpected(response, f"discovery: {error}: {quote_beginning(response.body)}") from None
