"""Carries out apply patches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from bosket.api.field_error import required
from bosket.apiserver.apply.fieldset import FieldSet
from bosket.apiserver.apply.managed import (
    Manager,
    conflict_error,
    conflicts,
    known_managers,
    owned_places,
    write_managers,
)
from bosket.apiserver.apply.merge import merged, remove
from bosket.apiserver.apply.shape import Shape, shape_of
from bosket.apiserver.request.body import body_work, check_object, decode_body
from bosket.apiserver.request.resource_request import ResourceRequest
from bosket.apiserver.status import bad_request, conflict, invalid
from bosket.apiserver.store.entry import Doc, Entry
from bosket.apiserver.writing.writer import Write, Writer

#: kubectl's two ways of applying share what they own: who changes over keeps it.
_SUCCESSORS = {"kubectl-client-side-apply": "kubectl"}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def apply_patch(request: ResourceRequest, write: Write, writer: Writer) -> tuple[Entry, bool]:
    """The object afterwards, and whether it was created."""
    if not write.manager_given:
        raise invalid("meta.k8s.io", "PatchOptions", "", [required("fieldManager", "is required for apply patch")])
    applied, applier = await writer.executor.run(body_work(request), _understood, request, write, writer.now())
    metadata, shape = applied["metadata"], shape_of(request.version)
    write.applying = True
    entry = request.kind.objects.get(request.namespace, request.name)
    if entry is None and not request.subresource:
        metadata.pop("resourceVersion", None)
        if metadata.get("uid"):
            detail = (
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
            )
            raise conflict(request.kind.group, request.kind.plural, request.name, detail)
        await writer.executor.run(len(request.body), write_managers, applied, [applier])
        return await writer.create(write, applied), True

    def change(live: Doc) -> Doc:
        return _applied(live, applied, applier, shape, entry, force=request.flag("force"))

    return await writer.update(write, request.name, change), False


def _understood(request: ResourceRequest, write: Write, now: str) -> tuple[Doc, Manager]:
    """What is applied, and who applies it, as the owner of all that it says."""
    body = decode_body(request.body, "application/yaml")
    if isinstance(body, dict) and not (body.get("apiVersion") and body.get("kind")):
        group, _, version = str(body.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={body.get('kind') or ''}")
    applied = check_object(request, body)
    metadata = applied["metadata"]
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if metadata.setdefault("name", request.name) != request.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({request.name})"
        )
    if request.namespace:
        metadata.setdefault("namespace", request.namespace)
    _check_declared(request, applied)
    shape = shape_of(request.version)
    return applied, Manager(
        write.manager,
        "Apply",
        request.api_version,
        request.subresource,
        _about_subresource(owned_places(applied, shape), request),
        now,
    )


def _applied(live: Doc, applied: Doc, applier: Manager, shape: Shape, entry: Entry | None, *, force: bool) -> Doc:
    managers = _known_managers(live, applier, shape, entry)
    result: Any = merged(live, applied, shape)
    found = conflicts(managers, applier, live, result)
    refused = [(manager, places) for manager, places in found if _SUCCESSORS.get(manager.name) != applier.name]
    if refused and not force:
        raise conflict_error(refused)
    for manager, places in found:
        manager.places -= set(places)
    previous = next((manager for manager in managers if manager.identity == applier.identity), None)
    others = [manager for manager in managers if manager is not previous]
    if previous is not None:
        dropped = previous.places - applier.places
        result = remove(result, _unowned(dropped, others, applier.places))
        if previous.places == applier.places:
            applier.time = previous.time
    write_managers(result, [*others, applier])
    result["metadata"].pop("resourceVersion", None)
    if version := applied["metadata"].get("resourceVersion"):
        result["metadata"]["resourceVersion"] = version
    return dict(result)


def _known_managers(live: Doc, applier: Manager, shape: Shape, entry: Entry | None) -> list[Manager]:
    """Who owns what; an applier that changes over from applying by itself is given what it applied last."""
    managers = known_managers(live, "" if entry is None else entry.creator, shape)
    former = [manager for manager in managers if _SUCCESSORS.get(manager.name) == applier.name]
    if not former or any(manager.identity == applier.identity for manager in managers):
        return managers
    handed_over = owned_places(_last_applied(live), shape)
    for manager in former:
        manager.places -= handed_over
    return [*managers, replace(applier, places=handed_over)]


def _last_applied(live: Doc) -> Doc:
    """What a client that applies by itself applied last; it says so on the object."""
    text = live["metadata"].get("annotations", {}).get(_LAST_APPLIED, "{}")
    try:
        applied = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:  # anybody can write there
        return {}
    return applied


def _unowned(dropped: FieldSet, others: list[Manager], kept: FieldSet) -> FieldSet:
    """What nobody wants any more. A map, a list or an element stays as long as somebody owns anything in it."""
    wanted: FieldSet = set(kept)
    for manager in others:
        wanted |= manager.places
    held = wanted | {place[:length] for place in wanted for length in range(1, len(place))}
    gone = set()
    for place in dropped - held:
        elements = [index for index, step in enumerate(place) if step[0] == "k" and place[: index + 1] in held]
        is_key = elements and place[-1][0] == "f" and f'"{place[-1][2:]}":' in place[elements[-1]]
        if not is_key:
            gone.add(place)
    return gone


def _about_subresource(places: FieldSet, request: ResourceRequest) -> FieldSet:
    """What is applied to the status owns status alone, and what isn't owns none of it, where the two are apart."""
    if request.subresource == "status":
        own = ("f:status",) if request.kind.custom else ("f:status", "f:metadata")
        return {place for place in places if place[0] in own}
    if request.version.strategy.has_status:
        return {place for place in places if place[0] != "f:status"}
    return places


def _check_declared(request: ResourceRequest, applied: Doc) -> None:
    """Nothing may be applied that the kind doesn't have, whatever is said about unknown fields elsewhere."""
    copy: Doc = msgspec.json.decode(msgspec.json.encode(applied))
    unknown = request.version.strategy.check_types(copy)
    if unknown:
        group, version = request.kind.group, request.version.name
        problems = "; ".join(f".{path}: field not declared in schema" for path in unknown)
        raise bad_request(
            f"failed to create typed patch object ({request.namespace}/{request.name}; {group}/{version}, "
            f"Kind={request.kind.kind}): {problems}"
        )
