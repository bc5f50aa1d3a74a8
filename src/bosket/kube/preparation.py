"""Paths, queries and bodies of requests. Pure; called by `client`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bosket.api.core import Pod
from bosket.api.meta import PartialObjectMetadata
from bosket.kube.codec import Codec

Query = tuple[tuple[str, str], ...]


def object_path(codec: Codec[Any], namespace: str | None, name: str | None, subresource: str | None = None) -> str:
    """The path of an object or of its collection; refuses names that would change the path."""
    resource = codec.resource
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.kind} {name or ''} needs a namespace")
    for segment in (namespace, name):
        if segment and ("/" in segment or "%" in segment or segment in (".", "..")):
            raise ValueError(f"{segment!r} can't be the name of a {resource.kind} or its namespace")
    if name == "":
        raise ValueError(f"a {resource.kind} can't have an empty name")
    if subresource == "scale":
        raise ValueError(f"the scale of a {resource.kind} is no {resource.kind}: use Client.scale")
    return resource.path(namespace, name, subresource)


def accepted(codec: Codec[Any], form: str) -> Mapping[str, str]:
    """The Accept header; asks for metadata only where only metadata would be decoded."""
    if codec.resource.struct is not PartialObjectMetadata:
        return {}
    return {"Accept": f"application/json;as={form};g=meta.k8s.io;v=v1,application/json"}


def applied(codec: Codec[Any], intent: dict[str, Any], name: str, namespace: str | None) -> dict[str, Any]:
    """What is applied, with all that a server wants it to say of itself."""
    meta = {**intent.get("metadata", {}), "name": name}
    if namespace and codec.resource.namespaced:
        meta["namespace"] = namespace
    return {**intent, "apiVersion": codec.resource.api_version, "kind": codec.resource.kind, "metadata": meta}


def selection(labels: str | None, fields: str | None) -> Query:
    """The parameters that select."""
    query: Query = ()
    if labels:
        query += (("labelSelector", labels),)
    if fields:
        query += (("fieldSelector", fields),)
    return query


def delete_options(
    grace_seconds: int | None, propagation: str | None = None, uid: str | None = None, version: str | None = None
) -> bytes:
    """The body of a deletion; empty where nothing is to be said."""
    options: dict[str, Any] = {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation is not None:
        options["propagationPolicy"] = propagation
    preconditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    if preconditions:
        options["preconditions"] = preconditions
    if not options:
        return b""
    return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **options})


def binding_of(
    pod: Pod, node: str, annotations: Mapping[str, str] | None, resource_version: str | None
) -> dict[str, Any]:
    """What assigns the pod, and no other of its name, to a node."""
    meta = pod.metadata
    about: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    if resource_version:
        about["resourceVersion"] = resource_version
    if annotations:
        about["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": about,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def eviction_of(pod: Pod, grace_seconds: int | None, *, dry_run: bool) -> dict[str, Any]:
    """What asks for the eviction of the pod, and of no other of its name."""
    meta = pod.metadata
    options: dict[str, Any] = {"preconditions": {"uid": meta.uid}} if meta.uid else {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        options["dryRun"] = ["All"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta.name, "namespace": meta.namespace},
        "deleteOptions": options,
    }
