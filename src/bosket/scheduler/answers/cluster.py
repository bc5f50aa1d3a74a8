"""A cluster that questions are put to: objects, configuration and time, with changes that can be tried and taken back.

`explain`, `plan` and the everyday commands make one `Cluster` from a recording, which is a snapshot file or what was
just read from a live cluster. `decide` costs what it costs the scheduler; a change that is tried renews only what the
change concerns, because the objects are kept in a `ClusterState`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from bosket.api.object import KubeObject, ObjectKey
from bosket.kube.codec import codec_of, gc_paused
from bosket.scheduler.answers.change import ChangeError, ObjectPatch, patched
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import configuration_document
from bosket.scheduler.decide import decide, known_part
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.recording.flight.digest import decisive
from bosket.scheduler.recording.object_lists import LISTS, RecordedList
from bosket.scheduler.recording.recorded import Partition, Recorded

_LIST_OF: Final[dict[type[KubeObject], RecordedList]] = {each.kind: each for each in LISTS.values()}


class Cluster:
    """Objects of a cluster, the configuration of its scheduler, and a moment."""

    def __init__(
        self, recorded: Recorded, now: float | None = None, report: Callable[[str], None] | None = None
    ) -> None:
        """`now`: epoch seconds that the cluster is looked at; by default the time of the recording, else the clock's.
        `report` gets a sentence for each object that can't be read."""
        self.recorded = recorded
        self.configuration: Configuration
        #: actions and plugins that the configuration names and that aren't installed
        self.missing: list[str]
        self.configuration, self.missing = known_part(recorded.configuration)
        self.now = now if now is not None else recorded.now if recorded.now is not None else time.time()
        self.decides = 0  #: calls of `decide` so far
        self._digest: str | None = None  # of the objects as they are
        self._shard = shard = recorded.parameters.partition_params or Partition()
        self._state = recorded.state(report)
        self._objects: dict[type[KubeObject], dict[ObjectKey, KubeObject]] = {
            each.kind: {obj.key: obj for obj in recorded.objects.get(name, ()) if not each.sharded or shard.has(obj)}
            for name, each in LISTS.items()
        }

    def get(self, kind: type[KubeObject], key: ObjectKey) -> KubeObject | None:
        """The object of the kind with that key."""
        return self._objects[kind].get(key)

    def objects(self, kind: type[KubeObject]) -> Sequence[KubeObject]:
        """All objects of the kind, those of other shards excepted."""
        return tuple(self._objects[kind].values())

    def snapshot(self) -> Snapshot:
        """The snapshot of the objects as they are, with the changes that are being tried."""
        with gc_paused():
            return self._state.snapshot(self.now)

    def decide(self, snapshot: Snapshot | None = None, configuration: Configuration | None = None) -> Decisions:
        """What the scheduler would decide, by default on the snapshot of the cluster as it is."""
        self.decides += 1
        return decide(snapshot or self.snapshot(), configuration or self.configuration)

    @contextmanager
    def changed(self, patches: Iterable[ObjectPatch]) -> Iterator[Snapshot]:
        """The snapshot after the patches, which are taken back at the end. Raises `ChangeError`; then nothing changed.

        Several patches of one object apply one after the other. Changes can be nested.
        """
        after: dict[tuple[type[KubeObject], ObjectKey], KubeObject | None] = {}
        for patch in patches:
            what = (patch.object.struct, patch.object.key)
            before = after[what] if what in after else self.get(*what)
            after[what] = patched(before, patch)
        self._check_shard(after.values())
        with self.replaced(after) as snapshot:
            yield snapshot

    @contextmanager
    def replaced(self, after: dict[tuple[type[KubeObject], ObjectKey], KubeObject | None]) -> Iterator[Snapshot]:
        """The snapshot with these objects instead, by kind and key; None removes one. Taken back at the end."""
        before, digest = {what: self.get(*what) for what in after}, self._digest
        mix = self._state.pod_mix(self.now)
        try:
            self._put(after)
            yield self.snapshot()
        finally:
            self._put(before)
            self._digest = digest
            # A pod that was tried would otherwise stay counted among the pods that this cluster sees.
            self._state.put_pod_mix(mix, self.now)

    def _put(self, objects: dict[tuple[type[KubeObject], ObjectKey], KubeObject | None]) -> None:
        self._digest = None
        # In the order of `LISTS`, because reading a pod depends on the other objects.
        for kind in _LIST_OF:
            known = self._objects[kind]
            for (of, key), obj in objects.items():
                if of is not kind:
                    continue
                if obj is not None:
                    self._state.put(obj)
                    known[key] = obj
                elif (gone := known.pop(key, None)) is not None:
                    self._state.drop(gone)

    def _check_shard(self, objects: Iterable[KubeObject | None]) -> None:
        for obj in objects:
            if obj is not None and _LIST_OF[type(obj)].sharded and not self._shard.has(obj):
                label = f"{self._shard.node_pool_label_key}={self._shard.node_pool_label_value}"
                raise ChangeError(
                    f"{type(obj).__name__} {obj.key}: it doesn't belong to this shard, whose objects have the label "
                    f"{label}"
                )

    def digest(self) -> str:
        """Digest of all that a decision depends on, apart from the time: equal digests, equal decisions."""
        if self._digest is None:
            self._digest = self._make_digest()
        return self._digest

    def _make_digest(self) -> str:
        digest = hashlib.sha256()
        digest.update(msgspec.json.encode(configuration_document(self.configuration), order="sorted"))
        digest.update(msgspec.json.encode(self.recorded.parameters, order="sorted"))
        own = self.recorded
        for part in (own.commitments, own.held, own.usage, own.run_times, own.pod_mix):
            digest.update(msgspec.json.encode(part, order="sorted"))
        for each in LISTS.values():
            encode, known = codec_of(each.kind).encode, self._objects[each.kind]
            digest.update(each.kind.__name__.encode())
            for key in sorted(known):
                digest.update(encode(decisive(each.redact(known[key]))))
        return f"sha256:{digest.hexdigest()}"
