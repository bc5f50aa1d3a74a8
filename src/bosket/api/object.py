"""What every Kubernetes object has: the base of all Structs, metadata, lists, Status, conditions.

Attributes carry the names they have on the wire (`pod.spec.nodeName`), so that a Struct, a patch and a manifest
speak of the same field by the same word. Structs are frozen: objects are shared between caches and are changed by
writing a patch (`bosket.kube.client.Client.modify`), which also keeps fields that a Struct doesn't know.

Conventions for every Struct of this package:

- an optional list is `tuple[X, ...] = ()`, an optional map `dict[str, X] = {}`, anything else optional
  `X | None = None`; a string whose empty value means "not set" in Kubernetes may be `str = ""`;
- times are RFC 3339 strings, durations Go duration strings, quantities `Quantity` (see `bosket.api.quantity`,
  `bosket.api.time`);
- `apiVersion` and `kind` are empty in memory: a type knows its own (`bosket.api.resource`), and the client writes them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, dataclass_transform

import msgspec

from bosket.api.crd_marks import Int64, Timestamp


# Type checkers would otherwise want `frozen` repeated in every Struct. `kw_only` msgspec itself wants repeated, where a
# required field follows an optional one.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of everything that travels to or from an API server.

    JSON has no cycles, so the garbage collector may look away.
    """


class ObjectKey(NamedTuple):
    """Identity of an object among those of its kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Wire):
    """Who an object belongs to; the garbage collector follows it."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    blockOwnerDeletion: bool | None = None


class ManagedFieldsEntry(Wire):
    """Which manager set which fields, as server-side apply records it."""

    manager: str = ""
    operation: str = ""
    apiVersion: str = ""
    time: str | None = None
    fieldsType: str = ""
    fieldsV1: dict[str, Any] | None = None
    subresource: str = ""


class ObjectMeta(Wire):
    """Standard metadata of every object."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    ownerReferences: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managedFields: tuple[ManagedFieldsEntry, ...] = ()


class KubeObject(Wire):
    """An object that is stored under a name of its own."""

    apiVersion: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> ObjectKey:
        metadata = self.metadata
        return tuple.__new__(ObjectKey, (metadata.namespace, metadata.name))  # without a call in between


class Condition(Wire):
    """metav1.Condition: one observed aspect of an object's state. API servers want all but the generation."""

    type: str
    status: str
    lastTransitionTime: Timestamp
    reason: str
    message: str
    observedGeneration: Int64 | None = None


class LabelSelectorRequirement(Wire):
    """One expression of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Wire):
    """Labels that an object must have; an empty one matches everything, an absent one nothing."""

    matchLabels: dict[str, str] = {}
    matchExpressions: tuple[LabelSelectorRequirement, ...] = ()


class StatusCause(Wire):
    """One reason of a refusal, with the field it speaks of."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Wire):
    """What a Status speaks of."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retryAfterSeconds: int = 0


class Status(Wire):
    """What an API server answers when it has no object to give: an error, or the result of a deletion."""

    apiVersion: str = "v1"
    kind: str = "Status"
    metadata: dict[str, Any] = {}
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ListMeta(Wire):
    """Metadata of a list: the version it is true of, and where to go on."""

    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remainingItemCount: int | None = None
