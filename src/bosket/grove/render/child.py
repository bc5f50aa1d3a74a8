"""Metadata of the operator's children: made anew, or laid over what is there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from bosket.api.grove.naming import COMPONENT_LABEL, NAME_LABEL, managed_labels
from bosket.api.object import KubeObject, ObjectMeta
from bosket.api.ownership import controller_of, controller_reference


def component_labels(set_name: str, component: str, name: str = "") -> dict[str, str]:
    """Labels of a child of this sort; most also carry their own name."""
    labels = {**managed_labels(set_name), COMPONENT_LABEL: component}
    return {**labels, NAME_LABEL: name} if name else labels


def child_meta(
    existing: KubeObject | None,
    owner: KubeObject,
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    *,
    finalizer: str = "",
) -> ObjectMeta:
    """The metadata that a child should have. Labels are all replaced, annotations too, unless None is given."""
    meta = existing.metadata if existing is not None else ObjectMeta(name=name, namespace=owner.metadata.namespace)
    owners = meta.ownerReferences
    if existing is None or controller_of(existing) is None:
        owners = (*owners, controller_reference(owner))
    finalizers = meta.finalizers
    if finalizer and finalizer not in finalizers:
        finalizers = (*finalizers, finalizer)
    return replace(
        meta,
        labels=dict(labels),
        annotations=meta.annotations if annotations is None else dict(annotations),
        ownerReferences=owners,
        finalizers=finalizers,
    )
