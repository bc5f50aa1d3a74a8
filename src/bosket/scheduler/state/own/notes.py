"""Notes: annotations of pod groups that were decided and not observed yet.

Since when a gang is stale, and when a job started or was evicted, is an annotation that appears some cycles after the
decision. Without this overlay the times would begin anew in every cycle until then.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey

Annotations = dict[str, str | None]  #: None: taken away


class Notes:
    """Pending annotations by pod group."""

    def __init__(self) -> None:
        self._notes: dict[ObjectKey, tuple[str, Annotations]] = {}

    def write(self, group: PodGroup, annotation: str, value: str | None) -> None:
        uid, notes = self._notes.get(group.key, ("", {}))
        if uid != group.metadata.uid:
            notes = {}
        self._notes[group.key] = (group.metadata.uid, {**notes, annotation: value})

    def all(self) -> Mapping[ObjectKey, tuple[str, Annotations]]:
        """All pending annotations: by group, with the group's uid."""
        return dict(self._notes)

    def forget(self, group: ObjectKey, annotation: str) -> bool:
        """The annotation won't be written; returns whether it counted until now."""
        if group not in self._notes or annotation not in self._notes[group][1]:
            return False
        uid, notes = self._notes[group]
        self._keep(group, uid, {name: value for name, value in notes.items() if name != annotation})
        return True

    def observe(self, group: PodGroup) -> None:
        """The watch showed the group: annotations that it has by now are no longer pending."""
        found = self._notes.get(group.key) if self._notes else None
        if found is not None:
            uid, notes = found
            there = group.metadata.annotations
            left = {name: value for name, value in notes.items() if there.get(name) != value}
            self._keep(group.key, uid, left if uid == group.metadata.uid else {})

    def forget_group(self, group: ObjectKey) -> None:
        self._notes.pop(group, None)

    def overlay(self, group: PodGroup) -> PodGroup:
        """The group with its pending annotations."""
        found = self._notes.get(group.key) if self._notes else None
        if found is None or found[0] != group.metadata.uid:
            return group
        annotations = {**group.metadata.annotations, **found[1]}
        kept = {name: value for name, value in annotations.items() if value is not None}
        return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, annotations=kept))

    def _keep(self, group: ObjectKey, uid: str, notes: Annotations) -> None:
        if notes:
            self._notes[group] = (uid, notes)
        else:
            self._notes.pop(group, None)
