"""Which objects a list or a watch is about: namespace, label selector, field selector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bosket.apiserver.entry import Entry, sort_key
from bosket.apiserver.shelf import Shelf
from bosket.apiserver.status import bad_request
from bosket.kube.selector import EVERYTHING, FieldSelector, InvalidSelector, Selector, parse_fields, parse_labels

_NO_FIELDS = FieldSelector()
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class Selection:
    """Says of an entry whether it is meant."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: FieldSelector = _NO_FIELDS

    def matches(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        if self.labels is not EVERYTHING and not self.labels.matches(entry.labels):
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

    def indexed(self, shelf: Shelf) -> str | None:
        """The value of the shelf's index that is asked for, if one is."""
        return self.fields.value_of(shelf.index) if shelf.index is not None else None

    def entries(self, shelf: Shelf, *, after: tuple[str, str] | None = None) -> Iterator[Entry]:
        """The objects meant, in order, looking at no more than needed; `after` that namespace and name only."""
        name = self.fields.value_of("metadata.name")
        if name is not None and after is None and (self.namespace or not shelf.namespaced):
            entry = shelf.get(self.namespace, name)
            return iter((entry,) if entry is not None and self.matches(entry) else ())
        found = shelf.entries(self.namespace, indexed=self.indexed(shelf), after=after)
        if self.labels is EVERYTHING and self.fields is _NO_FIELDS:
            return found
        return filter(self.matches, found)

    def entries_at(self, shelf: Shelf, version: int, *, after: tuple[str, str] | None = None) -> list[Entry] | None:
        """The objects that were meant at a version; None if that is no longer known."""
        events = shelf.since(version)
        if events is None:
            return None
        found = self.entries(shelf, after=after)
        if not events:
            return list(found)
        # What happened since is undone, the newest first.
        states: dict[tuple[str, str], Entry | None] = {(entry.namespace, entry.name): entry for entry in found}
        for event in reversed(events):
            key = (event.entry.namespace, event.entry.name)
            if after is None or sort_key(key) > sort_key(after):
                states[key] = event.previous
        kept = [entry for entry in states.values() if entry is not None and self.matches(entry)]
        return sorted(kept, key=lambda entry: sort_key((entry.namespace, entry.name)))


def parse_selection(namespace: str, query: Mapping[str, str], selectable: frozenset[str]) -> Selection:
    """From the parameters of a request; a selector that can't be understood is the client's mistake."""
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
    return Selection(namespace, labels, fields)
