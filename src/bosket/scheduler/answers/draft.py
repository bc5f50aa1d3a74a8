"""A draft of changes: objects of a cluster as they would be, collected before anything is decided on them.

`plan` reads and writes objects through a draft: each edit sees what the edits before it did. The cluster itself stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

import msgspec

from bosket.api.core import Pod
from bosket.api.object import KubeObject, ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.api.time import format_time
from bosket.scheduler.answers.change import ObjectPatch, patched
from bosket.scheduler.answers.cluster import Cluster

K = TypeVar("K", bound=KubeObject)

#: By kind and key: the object as it would be; None: it is gone.
Changed = Mapping[tuple[type[KubeObject], ObjectKey], KubeObject | None]


class Draft:
    """What a cluster would hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._after: dict[tuple[type[KubeObject], ObjectKey], KubeObject | None] = {}
        #: pods that end, or are gone with their nodes, and that their controllers make anew
        self.gone: list[Pod] = []
        #: pods that end, and that nobody makes anew
        self.ending: set[ObjectKey] = set()

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

    def put(self, obj: KubeObject) -> None:
        """Adds the object, or puts it in the place of the one with its key."""
        self._after[type(obj), obj.key] = obj

    def drop(self, obj: KubeObject) -> None:
        """Takes the object out."""
        self._after[type(obj), obj.key] = None

    def end(self, pod: Pod) -> None:
        """Deletes the pod with its workload: it keeps its place until its grace is over."""
        if not pod.spec.nodeName or has_ended(pod):
            self.drop(pod)
            return
        grace = pod.spec.terminationGracePeriodSeconds or 0
        ends = format_time(self.cluster.now + grace)
        metadata = msgspec.structs.replace(pod.metadata, deletionTimestamp=pod.metadata.deletionTimestamp or ends)
        self.put(msgspec.structs.replace(pod, metadata=metadata))
        self.ending.add(pod.key)

    def evict(self, pod: Pod, *, at_once: bool = False) -> None:
        """Has the pod end, for its controller to make it anew; `at_once`: it is gone, as its node is."""
        if at_once:
            self.drop(pod)
        else:
            self.end(pod)
        self.gone.append(pod)

    def apply(self, patches: Iterable[ObjectPatch]) -> None:
        """Applies patches, one after the other. Raises `ChangeError`."""
        for patch in patches:
            kind, key = patch.object.struct, patch.object.key
            self._after[kind, key] = patched(self.get(kind, key), patch)
