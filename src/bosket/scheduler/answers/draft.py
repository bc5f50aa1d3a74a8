"""A draft of changes: objects of a cluster as they would be, collected before anything is decided on them.

`plan` reads and writes objects through a draft: each edit sees what the edits before it did. The cluster itself stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, cast

from bosket.api.object import KubeObject, ObjectKey
from bosket.scheduler.answers.change import ObjectPatch, patched
from bosket.scheduler.answers.cluster import Cluster
from bosket.scheduler.recording.object_lists import LISTS

K = TypeVar("K", bound=KubeObject)

#: By kind and key: the object as it would be; None: it is gone.
Changed = Mapping[tuple[type[KubeObject], ObjectKey], KubeObject | None]


class Draft:
    """What a cluster would hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._after: dict[tuple[type[KubeObject], ObjectKey], KubeObject | None] = {}

    @property
    def changed(self) -> Changed:
        """The objects that differ from the cluster's."""
        return self._after

    def get(self, kind: type[K], key: ObjectKey) -> K | None:
        """The object of the kind with that key, as it would be."""
        if (kind, key) in self._after:
            return cast("K | None", self._after[kind, key])
        return cast("K | None", self.cluster.get(kind, key))

    def objects(self, kind: type[K]) -> Iterator[K]:
        """All objects of the kind, as they would be: in the order of the cluster, new ones last."""
        for known in self.cluster.objects(kind):
            found = self._after.get((kind, known.key), known)
            if found is not None:
                yield cast(K, found)
        for (of, key), obj in self._after.items():
            if of is kind and obj is not None and self.cluster.get(kind, key) is None:
                yield cast(K, obj)

    def result(self) -> Cluster:
        """The cluster with the changes made, as a cluster of its own."""
        recorded = self.cluster.recorded
        objects: dict[str, tuple[KubeObject, ...]] = {
            name: tuple(self.objects(each.kind)) for name, each in LISTS.items()
        }
        return Cluster(replace(recorded, objects=objects), self.cluster.now)

    def put(self, obj: KubeObject) -> None:
        """Adds the object, or puts it in the place of the one with its key."""
        self._after[type(obj), obj.key] = obj

    def drop(self, obj: KubeObject) -> None:
        """Takes the object out."""
        self._after[type(obj), obj.key] = None

    def apply(self, patches: Iterable[ObjectPatch]) -> None:
        """Applies patches, one after the other. Raises `ChangeError`."""
        for patch in patches:
            kind, key = patch.object.struct, patch.object.key
            self._after[kind, key] = patched(self.get(kind, key), patch)
