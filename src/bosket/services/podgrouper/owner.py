"""The owner chain of a pod, from the direct owner to the top.

Walking the chain is the only part of grouping that waits for reads, through `OwnerReader`. Everything after it works on
plain `Owner`s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from bosket.api.core import ObjectReference, Pod
from bosket.api.object import KubeObject, ObjectMeta, OwnerReference
from bosket.kube.errors import Forbidden

#: Longer chains count as circles.
_LONGEST_CHAIN: Final = 32


class GroupingError(Exception):
    """A pod can't be grouped as it is; the message says which object, field and value stand in the way.

    `culprit`: an object other than the pod that its administrator should hear of, too.
    """

    culprit: Owner | None = None


class GroupVersionKind(NamedTuple):
    """A kind in one version of its API group; the version `*` stands for all of them."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupVersionKind:
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


POD: Final = GroupVersionKind("", "v1", "Pod")


@dataclass(frozen=True)
class Owner:
    """An object above a pod (or the pod itself, if it has no owner)."""

    gvk: GroupVersionKind
    metadata: ObjectMeta
    source: KubeObject | Mapping[str, Any]

    @classmethod
    def typed(cls, gvk: GroupVersionKind, source: KubeObject) -> Owner:
        return cls(gvk, source.metadata, source)

    @classmethod
    def untyped(cls, gvk: GroupVersionKind, source: Mapping[str, Any]) -> Owner:
        return cls(gvk, msgspec.convert(source.get("metadata", {}), ObjectMeta), source)

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The whole object as it is on the wire, for groupers that look into its spec."""
        if isinstance(self.source, KubeObject):
            # Through JSON: otherwise lists would be tuples, as Structs have them.
            content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.source))
            return content
        return self.source

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations

    @property
    def reference(self) -> OwnerReference:
        """How an object says that it belongs to this one, without claiming to be controlled by it."""
        return OwnerReference(
            apiVersion=self.gvk.api_version, kind=self.gvk.kind, name=self.name, uid=self.metadata.uid
        )

    @property
    def object_reference(self) -> ObjectReference:
        """How an event says that it is about this object."""
        meta = self.metadata
        return ObjectReference(
            apiVersion=self.gvk.api_version,
            kind=self.gvk.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resourceVersion=meta.resourceVersion,
        )

    def __str__(self) -> str:
        namespace = self.metadata.namespace
        return f"{self.gvk.kind} {namespace}/{self.name}" if namespace else f"{self.gvk.kind} {self.name}"


class OwnerReader(Protocol):
    """Reads owners. Raises `bosket.kube.errors.ApiError` (`NotFound`, `Forbidden`…) like the API server."""

    async def read(self, reference: OwnerReference, namespace: str) -> Owner: ...

    async def find(self, gvk: GroupVersionKind, name: str, namespace: str) -> Owner: ...

    async def find_all(self, gvk: GroupVersionKind) -> tuple[Owner, ...]: ...


async def owner_chain(pod: Pod, reader: OwnerReader) -> tuple[Owner, ...]:
    """The owners of a pod, the direct one first; empty for a pod without owners.

    The first owner reference is followed. Where reading is forbidden, the chain ends with the last readable owner: an
    administrator who hides a kind removes it from grouping.
    """
    chain: list[Owner] = []
    references = pod.metadata.ownerReferences[:1]
    while references:
        (reference,) = references
        try:
            owner = await reader.read(reference, pod.metadata.namespace)
        except Forbidden:
            break
        if owner.metadata.uid != reference.uid:
            raise GroupingError(
                f"{owner} is not the owner of pod {pod.key} any more: "
                f"it has uid {owner.metadata.uid}, the owner reference says {reference.uid}"
            )
        chain.append(owner)
        references = owner.metadata.ownerReferences
        if len(references) > 1:
            names = ", ".join(f"{each.kind} {each.name}" for each in references)
            raise GroupingError(f"{owner} has {len(references)} owners ({names}); one at most can be followed")
        if len(chain) > _LONGEST_CHAIN:
            raise GroupingError(f"pod {pod.key} has more than {_LONGEST_CHAIN} owners above it; do they form a circle?")
    return tuple(chain)


# Names of Kubernetes objects consist of lower-case letters, digits, `-` and `.`: the only question that YAML puts is
# whether a word would be read as something else than a string.
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-fA-F]+|0o?[0-7]+|0b[01]+")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_WORDS: Final = frozenset(
    form
    for word in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    for form in (word, word.title(), word.upper())
)


def top_owner_text(owner: Owner) -> str:
    """The annotation by which a group says who its top owner is: YAML, byte for byte as KAI writes it."""
    gvk = owner.gvk
    lines = {
        "name": owner.name,
        "uid": owner.metadata.uid,
        "group": gvk.group,
        "version": gvk.version,
        "kind": gvk.kind,
    }
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in lines.items())


def _scalar(text: str) -> str:
    ambiguous = not text or text in _WORDS or _NUMBER.fullmatch(text) or _DATE.fullmatch(text)
    return f'"{text}"' if ambiguous else text
