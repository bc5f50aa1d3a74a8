"""The CustomResourceDefinitions of all KAI and Grove kinds, made from their Structs.

Whoever sets up a cluster takes them from here. What KAI's and Grove's own definitions accept,
these accept, but for values that could only have gone wrong later, such as a negative quota.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from bosket.api import grove, kai
from bosket.api.crd_marks import Column, Scale
from bosket.api.crd_schema import structural_schema
from bosket.api.resource import AnyResource

Manifest = dict[str, Any]


def crd_manifests() -> list[Manifest]:
    """One CustomResourceDefinition for each kind."""
    return [crd_manifest(resource) for resource in (*kai.RESOURCES, *grove.RESOURCES)]


def crd_manifest(resource: AnyResource) -> Manifest:
    """The CustomResourceDefinition of one kind; a new one each time, which the caller may change."""
    manifest: Manifest = msgspec.json.decode(_encoded_manifest(resource))
    return manifest


@cache
def _encoded_manifest(resource: AnyResource) -> bytes:
    # Making the schemas of all kinds takes half a second, and follows from the Structs alone; a process that starts
    # several clusters makes them once.
    return msgspec.json.encode(_manifest(resource))


def _manifest(resource: AnyResource) -> Manifest:
    names: Manifest = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    version: Manifest = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": structural_schema(resource.struct)},
    }
    if columns := getattr(resource.struct, "COLUMNS", ()):
        version["additionalPrinterColumns"] = [_column(column) for column in columns]
    if resource.subresources:
        version["subresources"] = _subresources(resource)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> Manifest:
    printed: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.priority:
        printed["priority"] = column.priority
    return printed


def _subresources(resource: AnyResource) -> Manifest:
    subresources: Manifest = {}
    if "status" in resource.subresources:
        subresources["status"] = {}
    if "scale" in resource.subresources:
        scale: Scale = resource.struct.SCALE
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
            "labelSelectorPath": scale.selector,
        }
    return subresources
