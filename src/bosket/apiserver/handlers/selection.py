"""Which objects a list or a watch is about: namespace, label selector, field selector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bosket.apiserver.status import bad_request
from bosket.apiserver.store.entry import Entry, sort_key
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.kube.selector import (
    EVERYTHING,
    FieldRequirement,
    FieldSelector,
    InvalidSelector,
    Matcher,
    Selector,
    parse_fields,
    parse_labels,
)

_NO_FIELDS = FieldSelector()
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Says of an entry whether it is meant."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: FieldSelector = _NO_FIELDS
    _matcher: Matcher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matcher", Matcher(self.labels))

    def matches(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        if self.labels is not EVERYTHING and not self._matcher.matches(entry.labels):
            return False
        if self.fields is _NO_FIELDS:
            return True

        def value(path: str) -> str:
            if path == "metadata.name":
                return entry.name
            if path == "metadata.namespace":
                return entry.namespace
            return entry.fields.get(path, "")

        return self.fields.matches(value)

    @property
    def selects_fields_or_labels(self) -> bool:
        return self.labels is not EVERYTHING or self.fields is not _NO_FIELDS

    def indexed(self, resource_store: ResourceStore) -> str | None:
        """The index value that the field selector asks for; None when the selector doesn't use the index."""
        return self.fields.value_of(resource_store.index) if resource_store.index is not None else None

    @property
    def requirements(self) -> int:
        """How much there is to look at in each object."""
        return len(self.labels.requirements) + len(self.fields.requirements)

    def candidates(self, resource_store: ResourceStore, *, after: tuple[str, str] | None = None) -> list[Entry]:
        """The objects that may be meant, in order, no more than needed; `after` that namespace and name only."""
        name = self.fields.value_of("metadata.name")
        if name is not None and after is None and (self.namespace or not resource_store.namespaced):
            entry = resource_store.get(self.namespace, name)
            return [] if entry is None else [entry]
        return list(resource_store.entries(self.namespace, indexed=self.indexed(resource_store), after=after))

    def among(self, candidates: list[Entry]) -> list[Entry]:
        """Those that are meant. Looks at the entries alone, so that it may be done in a thread."""
        return candidates if not self.selects_fields_or_labels else list(filter(self.matches, candidates))

    def among_at(
        self, candidates: list[Entry], events: list[Event], *, after: tuple[str, str] | None = None
    ) -> list[Entry]:
        """Those that were meant before `events`, from those that may be meant now."""
        if not events:
            return self.among(candidates)
        # What happened since is undone, the newest first.
        states: dict[tuple[str, str], Entry | None] = {(entry.namespace, entry.name): entry for entry in candidates}
        for event in reversed(events):
            key = (event.entry.namespace, event.entry.name)
            if after is None or sort_key(key) > sort_key(after):
                states[key] = event.previous
        kept = [entry for entry in states.values() if entry is not None and self.matches(entry)]
        return sorted(kept, key=lambda entry: sort_key((entry.namespace, entry.name)))


def parse_selection(namespace: str, name: str, query: Mapping[str, str], selectable: frozenset[str]) -> Selection:
    """From the parameters of a request; a selector that can't be understood is the client's mistake.

    `name` is the one object that the request was allowed to be about; empty: all of them.
    """
    labels, fields = EVERYTHING, _NO_FIELDS
    try:
        if text := query.get("labelSelector"):
            labels = parse_labels(text)
        if text := query.get("fieldSelector"):
            fields = parse_fields(text)
    except InvalidSelector as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    for each in fields.requirements:
        if each.path not in _METADATA_FIELDS and each.path not in selectable:
            supported = ", ".join(sorted(_METADATA_FIELDS | selectable))
            raise bad_request(f"field label not supported: {each.path} (supported are {supported})")
    if name and fields.value_of("metadata.name") != name:
        fields = FieldSelector((FieldRequirement("metadata.name", name), *fields.requirements))
    return Selection(namespace, labels, fields)
