"""Discovery: which kinds are served, in the formats that clients ask for.

The documents change only with the registry, so they are kept until it does.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from bosket.apiserver.objects.kind import Kind, Registry, Version
from bosket.apiserver.request.resource_request import subresource_verbs
from bosket.apiserver.status import JSON, no_such_path
from bosket.kube.transport import Response

_DISCOVERY = "apidiscovery.k8s.io"
_STABILITY = {"": 2, "beta": 1, "alpha": 0}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
#: What the subresources of built-in kinds answer with, where that isn't the kind itself.
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


def version_rank(name: str) -> tuple[int, int, int]:
    """Sorts versions as Kubernetes prefers them: v2, v1, v1beta2, v1beta1, v1alpha1."""
    found = _VERSION.fullmatch(name)
    if found is None:
        return (-1, 0, 0)
    return (_STABILITY[found[2] or ""], int(found[1]), int(found[3] or 0))


class Discovery:
    """Answers /api and /apis, down to the list of resources of a version."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._answers: dict[tuple[str, str], Response] = {}

    def respond(self, path: str, accept: str, known: str = "") -> Response | None:
        """The document at `path`, if it is one of discovery's; `known` are the ETags that the client has."""
        if self._revision != self._registry.revision:
            self._answers.clear()
            self._revision = self._registry.revision
        form = _aggregated(accept) if path in ("/api", "/apis") else ""
        key = (path, form)
        found = self._answers.get(key)
        if found is None:
            document = self._document(path, form)
            if document is None:
                return None
            content_type = f"{JSON};g={_DISCOVERY};v={form};as=APIGroupDiscoveryList" if form else JSON
            body = msgspec.json.encode(document) + b"\n"
            headers = {"content-type": content_type, "vary": "Accept"}
            if form:
                headers |= {"etag": f'"{hashlib.sha512(body).hexdigest().upper()}"', "cache-control": "public"}
            found = Response(200, headers, body)
            self._answers[key] = found
        if known and found.headers.get("etag", "-") in known:
            return Response(304, found.headers, b"")
        return found

    def paths(self) -> list[str]:
        """Everything that can be asked for here."""
        groups = [f"/apis/{name}" for name in self._group_names()]
        versions = [f"/apis/{name}/{version}" for name in self._group_names() for version in self._versions(name)]
        return ["/api", *(f"/api/{version}" for version in self._versions("")), "/apis", *groups, *versions]

    def _document(self, path: str, form: str) -> dict[str, Any] | None:
        parts = path.strip("/").split("/")
        match parts:
            case ["api"]:
                return self._aggregated_list(form, core=True) if form else _core_versions()
            case ["apis"]:
                return self._aggregated_list(form, core=False) if form else self._group_list()
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group]:
                versions = self._versions(group)
                if not versions:
                    raise no_such_path()
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}
            case ["apis", group, version]:
                return self._resource_list(group, version)
        return None

    def _group_list(self) -> dict[str, Any]:
        groups = [_group(name, self._versions(name)) for name in self._group_names()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_names(self) -> list[str]:
        """Kubernetes' own groups first: of two kinds of one name, kubectl takes the first."""
        return sorted((name for name in self._registry.groups() if name), key=lambda name: (_is_custom(name), name))

    def _versions(self, group: str) -> list[str]:
        names = {name for kind in self._registry.groups().get(group, ()) for name in kind.versions}
        return sorted(names, key=version_rank, reverse=True)

    def _kinds(self, group: str, version: str) -> list[tuple[Kind, Version]]:
        kinds = self._registry.groups().get(group, ())
        found = [(kind, kind.versions[version]) for kind in kinds if version in kind.versions]
        return sorted(found, key=lambda pair: pair[0].plural)

    def _resource_list(self, group: str, version: str) -> dict[str, Any]:
        kinds = self._kinds(group, version)
        if not kinds:
            raise no_such_path()
        resources: list[dict[str, Any]] = []
        for kind, served in kinds:
            entry: dict[str, Any] = {
                "name": kind.plural,
                "singularName": kind.singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(kind.verbs),
            }
            if kind.short_names:
                entry["shortNames"] = list(kind.short_names)
            if kind.categories:
                entry["categories"] = list(kind.categories)
            resources.append(entry)
            for name in sorted(served.subresources):
                sub_group, sub_version, sub_kind = _subresource_kind(kind, version, name)
                sub: dict[str, Any] = {
                    "name": f"{kind.plural}/{name}",
                    "singularName": "",
                    "namespaced": kind.namespaced,
                    "kind": sub_kind,
                    "verbs": list(subresource_verbs(name)),
                }
                if (sub_group, sub_version) != (group, version):
                    sub |= {"group": sub_group, "version": sub_version}
                resources.append(sub)
        api_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}

    def _aggregated_list(self, form: str, *, core: bool) -> dict[str, Any]:
        items = []
        for group in [""] if core else self._group_names():
            versions = [
                {
                    "version": version,
                    "resources": [
                        _aggregated_resource(kind, version, served) for kind, served in self._kinds(group, version)
                    ],
                    "freshness": "Current",
                }
                for version in self._versions(group)
            ]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"{_DISCOVERY}/{form}",
            "metadata": {},
            "items": items,
        }


def _is_custom(group: str) -> bool:
    return "." in group and not group.endswith(".k8s.io")


def _aggregated(accept: str) -> str:
    """The version of aggregated discovery that a client accepts first, if any."""
    for choice in accept.split(","):
        options = dict(part.strip().partition("=")[::2] for part in choice.split(";")[1:])
        if options.get("as") == "APIGroupDiscoveryList" and options.get("g") == _DISCOVERY:
            if options.get("v") in ("v2", "v2beta1"):
                return options["v"]
        elif not options:
            return ""
    return ""


def _core_versions() -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    }


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def _subresource_kind(kind: Kind, version: str, name: str) -> tuple[str, str, str]:
    return _SUBRESOURCE_KINDS.get(name, (kind.group, version, kind.kind))


def _aggregated_resource(kind: Kind, version: str, served: Version) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if served.subresources:
        entry["subresources"] = []
        for name in sorted(served.subresources):
            group, sub_version, sub_kind = _subresource_kind(kind, version, name)
            entry["subresources"].append(
                {
                    "subresource": name,
                    "responseKind": {"group": group, "version": sub_version, "kind": sub_kind},
                    "verbs": list(subresource_verbs(name)),
                }
            )
    return entry
