"""Built-in kinds: Kubernetes' own, each with a Struct for its types and a `Behaviour` for defaults and rules.

What is peculiar to a kind stands in `kinds/`, a module for each family; here is what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bosket.api.field_error import FieldError
from bosket.api.name_rules import subdomain_error
from bosket.api.resource import AnyResource
from bosket.apiserver.objects import metadata
from bosket.apiserver.objects.field_validation import drop_unknown
from bosket.apiserver.objects.kind import Strategy
from bosket.apiserver.objects.types import check_types
from bosket.apiserver.store.entry import Doc, Fields


def nothing(_doc: Doc) -> None:
    """For kinds that have nothing to do at a step."""


def no_errors(_new: Doc, _old: Doc | None) -> list[FieldError]:
    """For kinds without rules."""
    return []


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one kind does differently from the others."""

    default: Callable[[Doc], None] = nothing
    #: what creation resets; by default, the status of kinds that have the subresource
    prepare_create: Callable[[Doc], None] | None = None
    #: adjusts a change on the main endpoint, after status was put back
    prepare_update: Callable[[Doc, Doc], None] | None = None
    validate: Callable[[Doc, Doc | None], list[FieldError]] = no_errors
    validate_status: Callable[[Doc, Doc | None], list[FieldError]] = no_errors
    validate_name: Callable[[str], str | None] = subdomain_error
    #: what field selectors may speak of, and how it is read
    selectable: dict[str, Callable[[Doc], Any]] | None = None
    #: the selectable field with an index
    index: str | None = None
    generation: bool = False
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    default_propagation: str = "Background"
    #: many are deleted by one call
    deletes_many: bool = True
    #: whether a deleted object must stay, beyond finalizers and grace
    held: Callable[[Doc], bool] | None = None

    def fields(self) -> Callable[[Doc], Fields] | None:
        """How the store reads the selectable fields of an object."""
        if self.selectable is None:
            return None
        readers = tuple(self.selectable.items())

        def read(doc: Doc) -> Fields:
            return {path: _text(value) for path, reader in readers if (value := reader(doc)) is not None}

        return read


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class BuiltinStrategy(Strategy):
    """A kind with a Struct."""

    def __init__(self, resource: AnyResource, behaviour: Behaviour) -> None:
        self._resource = resource
        self._behaviour = behaviour
        self.struct = resource.struct
        self.has_status = "status" in resource.subresources
        self.has_generation = behaviour.generation
        self.create_on_update = behaviour.create_on_update
        self.unconditional_update = behaviour.unconditional_update
        self.returns_deleted = behaviour.returns_deleted
        self.default_propagation = behaviour.default_propagation
        self.selectable = frozenset(behaviour.selectable or ())

    def default(self, doc: Doc) -> None:
        self._behaviour.default(doc)

    def validate_name(self, name: str) -> str | None:
        return self._behaviour.validate_name(name)

    def validate(self, new: Doc, old: Doc | None) -> list[FieldError]:
        return self._behaviour.validate(new, old)

    def validate_status(self, new: Doc, old: Doc) -> list[FieldError]:
        return self._behaviour.validate_status(new, old)

    def check_types(self, doc: Doc) -> list[str]:
        check_types(doc, self._resource.struct, self._resource.group, self._resource.kind, self._resource.version)
        return drop_unknown(doc, self._resource.struct)

    def prepare_create(self, doc: Doc) -> None:
        if self._behaviour.prepare_create is not None:
            self._behaviour.prepare_create(doc)
        elif self.has_status:
            doc["status"] = {}

    def prepare_update(self, new: Doc, old: Doc) -> None:
        if self.has_status:
            metadata.put_back(new, old, "status")
        if self._behaviour.prepare_update is not None:
            self._behaviour.prepare_update(new, old)

    def prepare_status(self, new: Doc, old: Doc) -> None:
        for key in new.keys() | old.keys():
            if key not in ("status", "metadata"):
                metadata.put_back(new, old, key)
        metadata.put_back(new["metadata"], old["metadata"], "ownerReferences")

    def may_go(self, doc: Doc) -> bool:
        held = self._behaviour.held
        return super().may_go(doc) and not (held is not None and held(doc))
