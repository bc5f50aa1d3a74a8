"""One object on its way to becoming pods, and what the rules of the kinds make children with.

A rule is a plain function `Item -> children`: it gives the objects that the kind's controller would make of the object,
one level down. Children that are no pods are expanded by the rules of their own kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bosket.services.podgrouper.field import Part
from bosket.services.podgrouper.owner import GroupVersionKind, Owner

Document = dict[str, Any]

#: Pods of all files together: more than any cluster runs.
MOST_PODS: Final = 100_000


class ExpansionError(Exception):
    """A workload that can't be expanded; the message names the object, the field and what would be right."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object with its identity."""

    document: Document
    owner: Owner
    #: another object of the files, by kind and name
    find: Callable[[str, str], Document | None] = lambda _kind, _name: None

    @property
    def part(self) -> Part:
        """The object's fields, for reading: errors name the object and the field."""
        return Part(self.owner)

    @property
    def name(self) -> str:
        return self.owner.name

    @property
    def namespace(self) -> str:
        return self.owner.metadata.namespace

    @property
    def gvk(self) -> GroupVersionKind:
        return self.owner.gvk

    def count(self, *path: str, default: int = 1) -> int:
        """A number of pods or replicas."""
        return counted(self.part, *path, default=default)

    def template(self, *path: str) -> Part:
        """A pod template that the object must have."""
        found = self.part.part(*path)
        if found is None:
            raise self.part.error("is missing; pods are made from it", *path)
        return found


Rule = Callable[[Item], Iterable[Document]]


def counted(part: Part, *path: str, default: int = 1) -> int:
    """A number of pods or replicas; the default where it is left out."""
    found = part.count(*path)
    if found is not None and found > MOST_PODS:
        raise part.error(f"is {found}; at most {MOST_PODS} are planned", *path)
    return default if found is None else found


def child(
    item: Item,
    api_version: str,
    kind: str,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> Document:
    """An object that the item's controller makes and controls."""
    metadata: Document = {
        "name": name,
        "namespace": item.namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": [{**_reference(item.owner), "controller": True}],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def pod_of(
    item: Item,
    template: Part,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Document:
    """A pod from a template, with further labels and annotations."""
    given_labels, given_annotations = template_metadata(template)
    return child(
        item,
        "v1",
        "Pod",
        name,
        labels={**given_labels, **(labels or {})},
        annotations={**given_annotations, **(annotations or {})},
        spec=spec_of(template),
    )


def template_metadata(template: Part) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a template."""
    return _words(template, "labels"), _words(template, "annotations")


def spec_of(template: Part) -> Document:
    """The spec of a template's pods."""
    spec = template.part("spec")
    if spec is None:
        raise template.error("is missing; it says what the pods ask for", "spec")
    return dict(spec.content)


def _words(template: Part, name: str) -> dict[str, str]:
    found = template.part("metadata", name)
    if found is None:
        return {}
    return {key: found.text(key) or "" for key in found}


def _reference(owner: Owner) -> Document:
    reference = owner.reference
    return {
        "apiVersion": reference.apiVersion, "kind": reference.kind, "name": reference.name, "uid": reference.uid,
    }  # fmt: skip
