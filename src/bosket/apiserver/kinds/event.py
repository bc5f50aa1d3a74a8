"""Events, in the two groups that serve them: one store, two spellings."""

from __future__ import annotations

from bosket.api.field_error import FieldError, invalid_value
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.kinds.paths import paths
from bosket.apiserver.store.entry import Doc

#: events.k8s.io → core, where the names differ
_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_ORIGINAL = {core: new for new, core in _RENAMED.items()}


def to_core(doc: Doc) -> Doc:
    """An events.k8s.io event as core/v1 has it."""
    return {_RENAMED.get(key, key): value for key, value in doc.items()} | {"apiVersion": "v1"}


def from_core(doc: Doc) -> Doc:
    """A core/v1 event as events.k8s.io has it."""
    return {_ORIGINAL.get(key, key): value for key, value in doc.items()} | {"apiVersion": "events.k8s.io/v1"}


def _validate(new: Doc, _old: Doc | None) -> list[FieldError]:
    key = "involvedObject" if "involvedObject" in new or "regarding" not in new else "regarding"
    involved = new.get(key, {}).get("namespace", "")
    own = new["metadata"].get("namespace", "")
    if involved == own or (not involved and own in ("default", "kube-system")):
        return []
    return [invalid_value(f"{key}.namespace", involved, "does not match event.namespace")]


def _source(doc: Doc) -> str | None:
    component: str | None = doc.get("source", {}).get("component") or doc.get("reportingComponent")
    return component


_SELECTABLE = {
    **paths(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ),
    "source": _source,
}

BEHAVIOURS = {
    ("", "Event"): Behaviour(validate=_validate, selectable=_SELECTABLE, create_on_update=True),
    ("events.k8s.io", "Event"): Behaviour(
        validate=_validate, selectable=paths("reason", "type"), create_on_update=True
    ),
}
