"""Admission: what depends on other objects than the one that is written.

A namespace must exist and not be going away; a pod gets its priority, its service account and the usual tolerations.
"""

from __future__ import annotations

from bosket.apiserver.kind import Registry
from bosket.apiserver.status import forbidden, not_found
from bosket.apiserver.store import Doc, Store
from bosket.apiserver.write import Write


class BuiltinAdmission:
    """The admission that every server has."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._namespaces = store.shelf("", "namespaces", namespaced=False)

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if old is None and write.namespace:
            self._check_namespace(write, new)

    def _check_namespace(self, write: Write, new: Doc) -> None:
        namespace = self._namespaces.get("", write.namespace)
        if namespace is None:
            raise not_found("", "namespaces", write.namespace)
        if namespace.fields.get("status.phase") == "Terminating":
            raise forbidden(
                write.kind.group,
                write.kind.plural,
                new["metadata"]["name"],
                f"unable to create new content in namespace {write.namespace} because it is being terminated",
                causes=[
                    {
                        "reason": "NamespaceTerminating",
                        "message": f"namespace {write.namespace} is being terminated",
                        "field": "metadata.namespace",
                    }
                ],
            )
