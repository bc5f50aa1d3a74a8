"""Objects of a custom kind in its several versions: the same object under another name, less what a version lacks.

Objects are stored in one version. What was stored by an earlier schema is completed and pruned by today's when it is
read, as if it had been written now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bosket.apiserver.custom.schema import apply_defaults, prune
from bosket.apiserver.custom.strategy import CustomStrategy
from bosket.apiserver.store.entry import Doc


class Conversion:
    """Between the versions of one kind. Objects up to version `outdated` may be of an earlier schema."""

    def __init__(self, group: str, storage: str, strategies: Mapping[str, CustomStrategy], outdated: int) -> None:
        self._group = group
        self._storage = storage
        self._strategies = strategies
        self._outdated = outdated

    def from_storage(self, version: str) -> Callable[[Doc], Doc] | None:
        """How a stored object becomes one of `version`; None where it is one already."""
        if version == self._storage and not self._outdated:
            return None

        def convert(doc: Doc) -> Doc:
            stored = doc["apiVersion"].rpartition("/")[2]
            if int(doc["metadata"].get("resourceVersion") or 0) <= self._outdated:
                self._renew(doc, stored)
            return self._renamed(doc, stored, version)

        return convert

    def to_storage(self, version: str) -> Callable[[Doc], Doc] | None:
        """How an object of `version` becomes one that is stored; None where it is one already."""
        if version == self._storage:
            return None
        return lambda doc: self._renamed(doc, version, self._storage)

    def _renew(self, doc: Doc, stored: str) -> None:
        strategy = self._strategies.get(stored)
        if strategy is not None:
            prune(doc, strategy.tree, "", [], root=True)
            apply_defaults(doc, strategy.tree)

    def _renamed(self, doc: Doc, before: str, version: str) -> Doc:
        if before != version:
            doc["apiVersion"] = f"{self._group}/{version}"
            prune(doc, self._strategies[version].tree, "", [], root=True)
        return doc
