"""Namespaces: they hold a finalizer of their own until everything in them is gone."""

from __future__ import annotations

from bosket.api.name_rules import label_error
from bosket.apiserver.kinds.builtin import Behaviour
from bosket.apiserver.store.entry import Doc

KUBERNETES_FINALIZER = "kubernetes"


def _default(doc: Doc) -> None:
    labels = doc["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = doc["metadata"].get("name", "")


def _prepare_create(doc: Doc) -> None:
    _default(doc)  # once more: its name may just have been generated
    finalizers = doc.setdefault("spec", {}).setdefault("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        finalizers.append(KUBERNETES_FINALIZER)
    doc["status"] = {"phase": "Active"}


def _prepare_update(new: Doc, old: Doc) -> None:
    # Only the finalize subresource may touch these.
    new.setdefault("spec", {})["finalizers"] = old.get("spec", {}).get("finalizers", [])


def _held(doc: Doc) -> bool:
    return bool(doc.get("spec", {}).get("finalizers"))


def _phase(doc: Doc) -> str:
    phase: str = doc.get("status", {}).get("phase", "Active")
    return phase


BEHAVIOURS = {
    ("", "Namespace"): Behaviour(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate_name=label_error,
        selectable={"status.phase": _phase},
        returns_deleted=True,
        deletes_many=False,
        held=_held,
    )
}
