"""CustomResourceDefinitions, and the kinds that come, change and go with them.

`Definitions` listens to the stored definitions and keeps the registry in step. A definition is established in the
same write that creates it: whoever waits for the condition need not wait. What definitions must look like is in
`definition_rules`, which names they get in `naming`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bosket.apiserver.custom.columns import columns_of, selectable_fields
from bosket.apiserver.custom.conversion import Conversion
from bosket.apiserver.custom.definition_rules import set_defaults, validate_definition
from bosket.apiserver.custom.naming import Names, accepted_names, is_established, settle_names
from bosket.apiserver.custom.strategy import CustomStrategy, strategy_of
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.objects.kind import Kind, Registry, Scale, Version
from bosket.apiserver.status import gone
from bosket.apiserver.store.entry import Doc
from bosket.apiserver.store.resource_store import Event, ResourceStore
from bosket.apiserver.store.store import Store

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
#: Held by a definition until its objects are gone.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_Place = tuple[str, str]


class Definitions:
    """Keeps the served kinds in step with the definitions."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        #: by group and plural: objects up to this version were written by other schemas than today's
        self._outdated: dict[_Place, int] = {}

    @property
    def _objects(self) -> ResourceStore:
        return self._store.resource(GROUP, PLURAL, namespaced=False)

    def listen(self) -> None:
        self._objects.listen(self._on_event)

    def behaviour(self) -> Behaviour:
        """The ways of definitions themselves."""
        return Behaviour(
            default=set_defaults,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            validate=validate_definition,
            generation=True,
        )

    # on the way in

    def _prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        finalizers = doc["metadata"].setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers.append(CLEANUP_FINALIZER)
        self.settle_status(doc, doc["metadata"]["creationTimestamp"])

    def _prepare_update(self, new: Doc, old: Doc) -> None:
        if new.get("spec") != old.get("spec"):
            new["status"] = msgspec.json.decode(msgspec.json.encode(old.get("status", {})))
            self.settle_status(new, new["metadata"]["creationTimestamp"])

    def settle_status(self, doc: Doc, now: str) -> None:
        """Say which names it gets, whether it is established, and which versions objects may be stored in."""
        status = doc["status"] = doc.get("status") or {}
        settle_names(doc, self._names_of_others(doc), now)
        stored = status["storedVersions"] = status.get("storedVersions") or []
        for version in doc["spec"].get("versions", ()):
            if version.get("storage") and version.get("name") not in stored:
                stored.append(version.get("name"))

    def _names_of_others(self, doc: Doc) -> Iterator[Names]:
        group, own = doc["spec"].get("group", ""), doc["metadata"].get("name")
        for kind in self._registry:
            if kind.group == group and not kind.custom:
                yield {
                    "plural": kind.plural,
                    "singular": kind.singular,
                    "shortNames": list(kind.short_names),
                    "kind": kind.kind,
                    "listKind": kind.list_kind,
                }
        for entry in self._objects.entries():
            if entry.name != own and entry.name.endswith(f".{group}"):
                other = entry.decode()
                if other["spec"]["group"] == group:
                    yield accepted_names(other)

    # afterwards

    def _on_event(self, event: Event) -> None:
        doc = event.entry.decode()
        spec = doc["spec"]
        place = spec["group"], spec["names"]["plural"]
        if event.type == "DELETED":
            self._outdated.pop(place, None)
            self._stop_serving(place)
            return
        if not is_established(doc):
            return
        before = None if event.previous is None else event.previous.decode()
        if before is None and doc["metadata"].get("generation", 1) > 1:
            self._outdated[place] = event.entry.version  # it is from an earlier life of this server
        elif before is not None and before["spec"]["versions"] != spec["versions"]:
            resource_store = self._store.resource(*place, namespaced=spec["scope"] == "Namespaced")
            if len(resource_store):
                self._outdated[place] = event.version
            # Who watches sees objects as they were described before: to come back is to see them as they are now.
            resource_store.abandon(None)
        elif before is not None and _serves_alike(before, doc):
            return
        self._serve(doc, place)

    def _serve(self, doc: Doc, place: _Place) -> None:
        kind = kind_of(doc, self._store, self._outdated.get(place, 0))
        if kind.versions:
            self._registry.add(kind)
        else:
            self._registry.remove(*place)

    def _stop_serving(self, place: _Place) -> None:
        kind = self._registry.at(*place)
        if kind is None or not kind.custom:
            return  # it was never accepted
        self._registry.remove(*place)
        resource_store = self._store.resources.pop(place, None)
        if resource_store is not None:
            resource_store.abandon(gone(f"{place[1]}.{place[0]} is no longer served"))


def _serves_alike(before: Doc, after: Doc) -> bool:
    return (
        accepted_names(before) == accepted_names(after)
        and is_established(before)
        and before["spec"] == after["spec"]
        and ("deletionTimestamp" in before["metadata"]) == ("deletionTimestamp" in after["metadata"])
    )


def kind_of(doc: Doc, store: Store, outdated: int) -> Kind:
    """The kind that a definition stands for; objects up to version `outdated` were written by another schema."""
    spec = doc["spec"]
    names = {**spec["names"], **accepted_names(doc)}
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    strategies = {version["name"]: strategy_of(version) for version in spec["versions"]}
    conversion = Conversion(spec["group"], storage, strategies, outdated)
    versions = {
        version["name"]: _version(version, spec["group"], names["kind"], strategies[version["name"]], conversion)
        for version in spec["versions"]
        if version.get("served")
    }
    namespaced = spec["scope"] == "Namespaced"
    resource_store = store.resource(spec["group"], names["plural"], namespaced=namespaced)
    resource_store.select_by(selectable_fields(strategies.values()))
    return Kind(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=namespaced,
        objects=resource_store,
        storage_version=storage,
        versions=versions,
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        terminating="deletionTimestamp" in doc["metadata"],
    )


def _deprecation(raw: dict[str, Any], described: str) -> str:
    if not raw.get("deprecated"):
        return ""
    return raw.get("deprecationWarning") or f"{described} is deprecated"


def _version(raw: dict[str, Any], group: str, kind: str, strategy: CustomStrategy, conversion: Conversion) -> Version:
    subresources = {key: value for key, value in (raw.get("subresources") or {}).items() if value is not None}
    scale = None
    if "scale" in subresources:
        paths = subresources["scale"]
        scale = Scale(
            paths["specReplicasPath"].removeprefix("."),
            paths["statusReplicasPath"].removeprefix("."),
            (paths.get("labelSelectorPath") or "").removeprefix("."),
        )
    return Version(
        raw["name"],
        strategy,
        frozenset(subresources),
        scale=scale,
        columns=columns_of(raw.get("additionalPrinterColumns") or ()),
        schema=lambda: strategy.schema,
        deprecation=_deprecation(raw, f"{group}/{raw['name']} {kind}"),
        from_storage=conversion.from_storage(raw["name"]),
        to_storage=conversion.to_storage(raw["name"]),
    )
