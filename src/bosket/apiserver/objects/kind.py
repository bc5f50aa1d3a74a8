"""A served kind: its names, where its objects are stored, and a strategy for each API version it is served in.

A `Strategy` is what distinguishes one kind from another on the way in: types, defaults, what a write may touch, rules.
`kinds.builtin` makes them for kinds with a Struct, `custom.strategy` for custom resources. `Registry` finds kinds.
"""

# ruff: noqa: ARG002 - the base Strategy ignores what its subclasses look at

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bosket.api.field_error import FieldError
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import ResourceStore


class Strategy:
    """How objects of one kind in one version are checked and completed. The base lets everything pass."""

    #: status is written through the `status` subresource only
    has_status = False
    #: `metadata.generation` counts changes outside metadata and status
    has_generation = False
    #: how much more there is to do about each byte of an object than about one of a built-in kind
    effort = 1
    #: PUT without a resourceVersion is allowed
    unconditional_update = True
    #: PUT on a name that is free creates
    create_on_update = False
    #: DELETE answers with the object instead of a Status
    returns_deleted = False
    #: what happens to dependents unless the client says
    default_propagation = "Background"
    #: fields, beside the name and namespace, that field selectors may speak of
    selectable: frozenset[str] = frozenset()

    #: the type of the objects, where there is one
    struct: type[msgspec.Struct] | None = None

    def check_types(self, doc: Doc) -> list[str]:
        """Raise unless every field has its type; drop fields that the kind doesn't have, and return their paths."""
        return []

    def default(self, doc: Doc) -> None:
        """Fill in what was left out."""

    def prepare_create(self, doc: Doc) -> None:
        """Undo what a client has no say in, on creation."""

    def prepare_update(self, new: Doc, old: Doc) -> None:
        """Undo what a client has no say in, on a change."""

    def prepare_status(self, new: Doc, old: Doc) -> None:
        """Undo everything that isn't status, on a write to the status subresource."""

    def validate_name(self, name: str) -> str | None:
        """What is wrong with a name, if something is."""
        return None

    def validate(self, new: Doc, old: Doc | None) -> list[FieldError]:
        """All rules that the object breaks; `old` is its state before, on a change."""
        return []

    def validate_status(self, new: Doc, old: Doc) -> list[FieldError]:
        return []

    def may_go(self, doc: Doc) -> bool:
        """Whether an object that is being deleted has nothing left to wait for."""
        metadata = doc["metadata"]
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )


#: What can be done to objects.
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers, as dotted paths (`spec.replicas`)."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    #: a LabelSelector (built-in kinds) or a string (custom resources)
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the kind's table; `value` reads a cell from an object and the current time."""

    name: str
    value: Callable[[Doc, float], object]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(slots=True)
class Version:
    """One API version of a kind."""

    name: str
    strategy: Strategy
    subresources: frozenset[str] = frozenset()
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    #: OpenAPI schema of the object, if there is more to say than "an object"
    schema: Callable[[], Doc] | None = None
    #: the warning for clients of this version; empty unless it is deprecated
    deprecation: str = ""
    #: for questions that are answered and not stored: completes the object with the answer
    review: Callable[[Any, Doc], None] | None = None
    #: turn a stored object into one of this version, and back; None where the stored form is this version's
    from_storage: Callable[[Doc], Doc] | None = None
    to_storage: Callable[[Doc], Doc] | None = None


@dataclass(slots=True)
class Kind:
    """One kind with all versions it is served in."""

    group: str
    kind: str
    plural: str
    namespaced: bool
    objects: ResourceStore
    storage_version: str
    versions: dict[str, Version]
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False
    #: kinds that only answer to a POST and are never stored
    verbs: tuple[str, ...] = VERBS
    #: set once a definition is going away: no new objects
    terminating: bool = False

    def __post_init__(self) -> None:
        self.singular = self.singular or self.kind.lower()
        self.list_kind = self.list_kind or f"{self.kind}List"

    @property
    def resource(self) -> str:
        """`pods`, `queues.scheduling.run.ai`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version


class Registry:
    """All kinds that are served now."""

    def __init__(self) -> None:
        self._by_resource: dict[tuple[str, str], Kind] = {}
        #: counts changes, so that what is derived from the registry (discovery, OpenAPI) can be kept until it changes
        self.revision = 0

    def add(self, kind: Kind) -> None:
        self._by_resource[kind.group, kind.plural] = kind
        self.revision += 1

    def remove(self, group: str, plural: str) -> None:
        if self._by_resource.pop((group, plural), None) is not None:
            self.revision += 1

    def at(self, group: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, plural))

    def of(self, group: str, kind: str) -> Kind | None:
        return next((each for each in self._by_resource.values() if each.group == group and each.kind == kind), None)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def groups(self) -> dict[str, list[Kind]]:
        """Kinds by group; the core group is the empty one."""
        groups: dict[str, list[Kind]] = {}
        for kind in self._by_resource.values():
            groups.setdefault(kind.group, []).append(kind)
        return groups
