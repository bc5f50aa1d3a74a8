"""CustomResourceDefinitions: what they must look like, and the kinds that come and go with them.

`Definitions` listens to the shelf of definitions and keeps the registry in step. A definition is established in the
same write that creates it: whoever waits for the condition need not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bosket.apiserver.builtin import Behaviour
from bosket.apiserver.conditions import set_condition
from bosket.apiserver.custom.check import Checker, InvalidSchema
from bosket.apiserver.custom.jsonpath import InvalidPath, JsonPath
from bosket.apiserver.custom.rules import Rules
from bosket.apiserver.custom.schema import Node
from bosket.apiserver.custom.strategy import CustomStrategy
from bosket.apiserver.kind import Column, Kind, Registry, Scale, Version
from bosket.apiserver.status import FieldError, gone, invalid_value, not_supported, required
from bosket.apiserver.store import Doc, Event, Fields, Store
from bosket.apiserver.table import AGE, NAME, age

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
#: Held by a definition until its objects are gone.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """Keeps the served kinds in step with the definitions."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store

    def listen(self) -> None:
        self._store.shelf(GROUP, PLURAL, namespaced=False).listen(self._on_event)

    def behaviour(self) -> Behaviour:
        """The ways of definitions themselves."""
        return Behaviour(
            default=_default,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            validate=validate_definition,
            generation=True,
        )

    def _prepare_create(self, doc: Doc) -> None:
        doc["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        finalizers = doc["metadata"].setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in finalizers:
            finalizers.append(CLEANUP_FINALIZER)
        self._settle_status(doc, doc["metadata"]["creationTimestamp"])

    def _prepare_update(self, new: Doc, old: Doc) -> None:
        if new.get("spec") != old.get("spec"):
            new["status"] = msgspec.json.decode(msgspec.json.encode(old.get("status", {})))
            self._settle_status(new, new["metadata"]["creationTimestamp"])

    def _settle_status(self, doc: Doc, now: str) -> None:
        """Accept the names unless another kind has them, and establish the kind."""
        spec = doc["spec"]
        names = spec.get("names") or {}
        status = doc["status"]
        conditions = status.setdefault("conditions", [])
        rival = self._rival(spec.get("group", ""), names)
        if rival is None:
            status["acceptedNames"] = names
            accepted = ("True", "NoConflicts", "no conflicts found")
            established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        else:
            accepted = ("False", "KindConflict", f"{names.get('kind')!r} is already in use by {rival}")
            established = ("False", "NotAccepted", "not all names are accepted")
        for kind, (value, reason, message) in (("NamesAccepted", accepted), ("Established", established)):
            wanted = {"type": kind, "status": value, "reason": reason, "message": message}
            set_condition(conditions, wanted, now)
        stored = status.setdefault("storedVersions", [])
        for version in spec.get("versions", ()):
            if version.get("storage") and version["name"] not in stored:
                stored.append(version["name"])

    def _rival(self, group: str, names: dict[str, Any]) -> str | None:
        for kind in self._registry:
            same_kind = kind.kind == names.get("kind") or kind.list_kind == names.get("listKind")
            if kind.group == group and kind.plural != names.get("plural") and same_kind:
                return kind.resource
        return None

    def _on_event(self, event: Event) -> None:
        doc = event.entry.decode()
        spec = doc["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        if event.type == "DELETED":
            self._registry.remove(group, plural)
            shelf = self._store.shelves.pop((group, plural), None)
            if shelf is not None:
                shelf.abandon(gone(f"{plural}.{group} is no longer served"))
            return
        established = any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in doc["status"]["conditions"]
        )
        if established and (
            event.previous is None or event.previous.decode()["spec"] != spec or "deletionTimestamp" in doc["metadata"]
        ):
            self._registry.add(kind_of(doc, self._store))


def kind_of(doc: Doc, store: Store) -> Kind:
    """The kind that a definition stands for."""
    spec = doc["spec"]
    names = spec["names"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    versions = {
        version["name"]: _version(version, spec["group"], names["kind"], storage)
        for version in spec["versions"]
        if version.get("served")
    }
    namespaced = spec["scope"] == "Namespaced"
    shelf = store.shelf(spec["group"], names["plural"], namespaced=namespaced)
    shelf.selectable = _selectable(versions)
    return Kind(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=namespaced,
        shelf=shelf,
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


def _version(raw: dict[str, Any], group: str, kind: str, storage: str) -> Version:
    strategy = CustomStrategy(raw)
    subresources = raw.get("subresources") or {}
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
        columns=_columns(raw.get("additionalPrinterColumns") or ()),
        schema=lambda: strategy.schema,
        deprecation=_deprecation(raw, f"{group}/{raw['name']} {kind}"),
        from_storage=None if raw["name"] == storage else _renamed(f"{group}/{raw['name']}"),
        to_storage=None if raw["name"] == storage else _renamed(f"{group}/{storage}"),
    )


def _renamed(api_version: str) -> Callable[[Doc], Doc]:
    """The conversion that is none: the same object under another version's name."""

    def convert(doc: Doc) -> Doc:
        doc["apiVersion"] = api_version
        return doc

    return convert


def _selectable(versions: dict[str, Version]) -> Callable[[Doc], Fields] | None:
    paths: dict[str, JsonPath] = {}
    for version in versions.values():
        assert isinstance(version.strategy, CustomStrategy)
        paths.update(version.strategy.selectable_paths())
    if not paths:
        return None

    def read(doc: Doc) -> Fields:
        found = {}
        for name, path in paths.items():
            value = path.first(doc)
            if value is not None:
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    return read


def _columns(raw: Any) -> tuple[Column, ...]:
    if not raw:
        return (NAME, AGE)
    return (NAME, *(_column(each) for each in raw))


def _column(raw: dict[str, Any]) -> Column:
    path, kind = JsonPath(raw["jsonPath"]), raw["type"]

    def value(doc: Doc, now: float) -> object:
        found = path.first(doc)
        if found is None:
            return None
        if kind == "date":
            return age(str(found), now)
        if kind in ("integer", "number", "boolean"):
            return found
        return found if isinstance(found, str) else msgspec.json.encode(found).decode()

    # Dates travel as text, for the server has already said how long ago they are.
    return Column(
        raw["name"],
        value,
        type="string" if kind == "date" else kind,
        format=raw.get("format", ""),
        description=raw.get("description", ""),
        priority=raw.get("priority", 0),
    )


def _default(doc: Doc) -> None:
    spec = doc.setdefault("spec", {})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def validate_definition(new: Doc, old: Doc | None) -> list[FieldError]:
    """The rules for definitions."""
    spec = new["spec"]
    group, names, versions = spec.get("group", ""), spec.get("names") or {}, spec.get("versions") or []
    errors: list[FieldError] = []
    if not group:
        errors.append(required("spec.group"))
    for key in ("plural", "kind"):
        if not names.get(key):
            errors.append(required(f"spec.names.{key}"))
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        errors.append(not_supported("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"]))
    expected = f"{names.get('plural')}.{group}"
    if new["metadata"]["name"] != expected:
        errors.append(
            invalid_value("metadata.name", new["metadata"]["name"], 'must be spec.names.plural+"."+spec.group')
        )
    if [version.get("storage") for version in versions].count(True) != 1:
        errors.append(
            invalid_value(
                "spec.versions",
                [version.get("name") for version in versions],
                "must have exactly one version marked as storage version",
            )
        )
    if (strategy := spec.get("conversion", {}).get("strategy")) != "None":
        errors.append(not_supported("spec.conversion.strategy", strategy, ["None"]))
    if old is not None:
        for key in ("group", "scope"):
            if spec.get(key) != old["spec"].get(key):
                errors.append(invalid_value(f"spec.{key}", spec.get(key), "field is immutable"))
    for index, version in enumerate(versions):
        errors += _validate_version(version, f"spec.versions[{index}]")
    return errors


def _validate_version(version: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    where = f"{path}.schema.openAPIV3Schema"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        errors.append(required(where, "schemas are required"))
    elif schema.get("type") != "object":
        errors.append(invalid_value(f"{where}.type", schema.get("type"), "must be object at the root"))
    else:
        try:
            Checker(schema)
            errors += [invalid_value(where, "", problem) for problem in Rules(Node(schema)).compile_all()]
        except (InvalidSchema, AttributeError, TypeError, KeyError) as error:
            errors.append(invalid_value(where, "", f"not a structural schema: {error}"))
    for key in ("additionalPrinterColumns", "selectableFields"):
        for index, each in enumerate(version.get(key) or ()):
            try:
                JsonPath(each["jsonPath"])
            except InvalidPath as error:
                errors.append(invalid_value(f"{path}.{key}[{index}].jsonPath", each["jsonPath"], str(error)))
    return errors
