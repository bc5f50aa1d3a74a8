"""Field owners of an object: managedFields, read and written.

Ownership is kept from the first write whose author gives a name for it (`fieldManager`, as kubectl does): to keep count
of every write of every controller would cost each of them a third more. All that is there before belongs to whoever
created the object.
"""

from __future__ import annotations

from dataclasses import dataclass

from bosket.apiserver.apply.fieldset import (
    FieldSet,
    Finder,
    StorageKey,
    branches_of,
    from_wire,
    places_of,
    shown,
    to_wire,
)
from bosket.apiserver.apply.shape import Shape, StructShape
from bosket.apiserver.status import StatusError
from bosket.apiserver.store.entry import Doc

#: Nobody owns these: they are the object's identity, or the server's.
_UNOWNED = frozenset({"apiVersion", "kind"})
_UNOWNED_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
#: Fields of built-in kinds that hold structures, not pointers to some: they are there, filled or not.
_STRUCTURES = frozenset(
    {
        "f:metadata",
        "f:spec",
        "f:status",
        "f:template",
        "f:jobTemplate",
        "f:strategy",
        "f:updateStrategy",
        "f:resources",
    }
)
BEFORE_FIRST_APPLY = "before-first-apply"


@dataclass(slots=True)
class Manager:
    """What one manager owns by one kind of operation."""

    name: str
    operation: str
    api_version: str
    subresource: str
    places: FieldSet
    time: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.name, self.operation, self.subresource

    def to_wire(self) -> Doc:
        entry: Doc = {"manager": self.name, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            entry["time"] = self.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_wire(self.places)}
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def owned_places(doc: Doc, shape: Shape) -> FieldSet:
    """All places of an object that can be owned."""
    return places_of(_ownable(doc), shape)


def _ownable(doc: Doc) -> Doc:
    relevant = {key: value for key, value in doc.items() if key not in _UNOWNED}
    metadata = {key: value for key, value in doc.get("metadata", {}).items() if key not in _UNOWNED_METADATA}
    relevant["metadata"] = metadata
    if not metadata:
        del relevant["metadata"]
    return relevant


def _can_be_owned(place: StorageKey) -> bool:
    """False for what makes the object this object. Clients write managed fields as they like; who stops applying what
    they say is theirs would remove it.
    """
    steps = [step[2:] for step in place[:2]]
    if place and steps[0] == "metadata":
        return len(steps) > 1 and steps[1] not in _UNOWNED_METADATA
    return bool(place) and steps[0] not in _UNOWNED


def managers_of(doc: Doc) -> list[Manager]:
    """The managers that an object's metadata lists."""
    return [
        Manager(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            {place for place in from_wire(entry.get("fieldsV1") or {}) if _can_be_owned(place)},
            entry.get("time", ""),
        )
        for entry in doc["metadata"].get("managedFields", ())
    ]


def write_managers(doc: Doc, managers: list[Manager]) -> None:
    """Put the managers that own something into an object's metadata."""
    ordered = sorted(managers, key=lambda each: (each.operation, each.time, *each.identity))
    entries = [manager.to_wire() for manager in ordered if manager.places]
    if entries:
        doc["metadata"]["managedFields"] = entries
    else:
        doc["metadata"].pop("managedFields", None)


def conflicts(
    managers: list[Manager], applier: Manager, live: Doc, after: Doc
) -> list[tuple[Manager, list[StorageKey]]]:
    """What others own, and would be different after the applier had its way."""
    found = []
    finder = Finder()
    for manager in managers:
        if manager.identity == applier.identity:
            continue
        places = sorted(
            place
            for place in applier.places & manager.places
            if place[-1][0] != "k" and finder.look_up(live, place) != finder.look_up(after, place)
        )
        if places:
            found.append((manager, places))
    return found


def conflict_error(found: list[tuple[Manager, list[StorageKey]]]) -> StatusError:
    """The refusal that tells of all conflicts."""
    causes = []
    sentences = []
    for manager, places in found:
        who = f'"{manager.name}"'
        if manager.subresource:
            who += f' with subresource "{manager.subresource}"'
        if manager.operation == "Update":
            who += f" using {manager.api_version}"
        for place in places:
            causes.append({"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": shown(place)})
        if len(places) == 1:
            sentences.append(f"conflict with {who}: {shown(places[0])}")
        else:
            sentences.append(f"conflicts with {who}:\n" + "\n".join(f"- {shown(place)}" for place in places))
    count = len(causes)
    message = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: " + "\n".join(sentences)
    return StatusError(409, "Conflict", message, causes=causes)


def known_managers(doc: Doc, creator: str, shape: Shape) -> list[Manager]:
    """Those that an object lists, else whoever created it as the owner of everything."""
    managers = managers_of(doc)
    if managers:
        return managers
    everything = owned_places(doc, shape) | _branches(doc, shape)
    created = doc["metadata"]["creationTimestamp"]
    return [Manager(creator or BEFORE_FIRST_APPLY, "Update", doc["apiVersion"], "", everything, created)]


def after_creation(doc: Doc, shape: Shape, writer: Manager) -> None:
    """Ownership of a new object that was not applied: all of it is the creator's, but what only the server writes."""
    leaves = {place for place in owned_places(doc, shape) if not _STRUCTURES.issuperset(place)}
    writer.places = leaves | _branches(doc, shape)
    write_managers(doc, [writer])


def is_listing(value: object) -> bool:
    """Whether a client may have meant a value as the managers of an object."""
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("manager"), str)
        and each.get("operation") in ("Apply", "Update")
        and isinstance(each.get("fieldsV1"), dict)
        and all(isinstance(each.get(key, ""), str) for key in ("apiVersion", "subresource", "time"))
        for each in value
    )


def after_update(new: Doc, old: Doc, shape: Shape, writer: Manager, managers: list[Manager]) -> None:
    """Ownership after a write that wasn't an apply: what it changed is the writer's, what it removed nobody's."""
    before, after = owned_places(old, shape), owned_places(new, shape)
    branches_before, branches_after = _branches(old, shape), _branches(new, shape)
    removed = (before | branches_before) - (after | branches_after)
    finder = Finder()
    changed = {
        place
        for place in after
        if place not in before or (place[-1][0] != "k" and finder.look_up(new, place) != finder.look_up(old, place))
    }
    if not changed and not removed:
        write_managers(new, managers)
        return
    mine = next((manager for manager in managers if manager.identity == writer.identity), None)
    taken = {place for place in changed if place[-1][0] != "k"}
    for manager in managers:
        manager.places = manager.places - removed  # `-=` would walk over all that was removed for each manager
        if manager is not mine:
            manager.places = manager.places - taken
    changed |= branches_after - branches_before - before
    if mine is None:
        managers.append(Manager(*writer.identity[:2], writer.api_version, writer.subresource, changed, writer.time))
    else:
        mine.places |= changed
        if changed:
            mine.time, mine.api_version = writer.time, writer.api_version
    write_managers(new, managers)


def _branches(doc: Doc, shape: Shape) -> FieldSet:
    """Without those that every object of a built-in kind has, filled or not."""
    found = branches_of(_ownable(doc), shape)
    if not isinstance(shape, StructShape):
        return found - {(), ("f:metadata",)}
    return {
        place
        for place in found
        if not all(step in _STRUCTURES for step in (place[:-1] if place[-1:] == ("f:containers",) else place))
    }
