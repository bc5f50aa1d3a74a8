"""Discovery: which groups, versions and kinds an API server serves.

Group by group as metav1 has it, and all at once as apidiscovery.k8s.io/v2 has it.
"""

from __future__ import annotations

from bosket.api.meta import GroupVersionKind
from bosket.api.object import KubeObject, ListMeta, Wire


class ServerAddressByClientCIDR(Wire):
    """Under which address clients of a network reach the server."""

    clientCIDR: str
    serverAddress: str


class GroupVersionForDiscovery(Wire):
    """A version of a group."""

    groupVersion: str
    version: str


class APIGroup(Wire):
    """A group and its versions."""

    name: str
    apiVersion: str = ""
    kind: str = ""
    versions: tuple[GroupVersionForDiscovery, ...] = ()
    preferredVersion: GroupVersionForDiscovery | None = None
    serverAddressByClientCIDRs: tuple[ServerAddressByClientCIDR, ...] = ()


class APIGroupList(Wire):
    """All groups but the core one; answers `/apis`."""

    apiVersion: str = ""
    kind: str = ""
    groups: tuple[APIGroup, ...] | None = ()


class APIVersions(Wire):
    """The versions of the core group; answers `/api`."""

    apiVersion: str = ""
    kind: str = ""
    versions: tuple[str, ...] = ()
    serverAddressByClientCIDRs: tuple[ServerAddressByClientCIDR, ...] | None = ()


class APIResource(Wire):
    """A resource, or with a slash in its name a subresource."""

    name: str
    singularName: str
    namespaced: bool
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = ()
    shortNames: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storageVersionHash: str = ""


class APIResourceList(Wire):
    """The resources of a version; answers `/apis/<group>/<version>`."""

    groupVersion: str
    apiVersion: str = ""
    kind: str = ""
    resources: tuple[APIResource, ...] | None = ()


class APISubresourceDiscovery(Wire):
    """A subresource."""

    subresource: str = ""
    responseKind: GroupVersionKind | None = None
    acceptedTypes: tuple[GroupVersionKind, ...] = ()
    verbs: tuple[str, ...] = ()


class APIResourceDiscovery(Wire):
    """A resource with its subresources."""

    resource: str = ""
    responseKind: GroupVersionKind | None = None
    scope: str = ""
    singularResource: str = ""
    verbs: tuple[str, ...] = ()
    shortNames: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[APISubresourceDiscovery, ...] = ()


class APIVersionDiscovery(Wire):
    """A version with its resources."""

    version: str = ""
    resources: tuple[APIResourceDiscovery, ...] = ()
    freshness: str = ""


class APIGroupDiscovery(KubeObject):
    """A group with its versions."""

    versions: tuple[APIVersionDiscovery, ...] = ()


class APIGroupDiscoveryList(Wire):
    """All groups; answers `/api` and `/apis` in their aggregated form."""

    apiVersion: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[APIGroupDiscovery, ...] = ()
