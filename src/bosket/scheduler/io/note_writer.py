"""NoteWriter: annotations of pod groups: when a job started, was evicted, or became stale.

An annotation counts in the live state at once until it is observed; if the API server refuses it, it no longer counts.
A note that nobody needs yet can be kept: it counts as well, and is written with the group's next note, or with all kept
notes once they are needed. Kept notes are lost when the process ends.
"""

from __future__ import annotations

import math

from bosket.api.kai import PodGroup
from bosket.api.object import ObjectKey
from bosket.api.time import format_time
from bosket.kube.client import Client
from bosket.kube.errors import ApiError, ServerError, TooManyRequests
from bosket.scheduler.io.status_writer import PendingWrite, StatusWriter
from bosket.scheduler.state.own_decisions import OwnDecisions


def stamp(seconds: float) -> str:
    """A time in whole seconds, as KAI writes it; rounded up, so that no grace and no minimum run time is cut short."""
    return format_time(math.ceil(seconds))


class NoteWriter:
    """Writes annotations in the background; `write` never waits."""

    def __init__(self, client: Client, own: OwnDecisions, status: StatusWriter) -> None:
        self._client, self._own, self._status = client, own, status

    def write(self, group: PodGroup, annotation: str, value: str | None) -> None:
        """Sets the annotation; None removes it."""
        self._own.write_note(group, annotation, value)
        self._send(group.key, group.metadata.uid, annotation, value)

    def keep(self, group: PodGroup, annotation: str, value: str) -> None:
        """Counts the annotation in the state without writing it for now."""
        self._own.write_note(group, annotation, value)

    def write_kept(self) -> None:
        """Writes all kept annotations."""
        for key, (uid, notes) in self._own.notes().items():
            for annotation, value in notes.items():
                self._send(key, uid, annotation, value)

    def _send(self, key: ObjectKey, uid: str, annotation: str, value: str | None) -> None:
        async def write() -> None:
            noted, others = self._own.notes().get(key, ("", {}))
            values = {**(others if noted == uid else {}), annotation: value}
            patch = {"metadata": {"uid": uid, "annotations": values}}
            try:
                await self._client.patch(PodGroup, key.name, patch, namespace=key.namespace)
            except (ServerError, TooManyRequests):
                raise  # may pass: retried
            except ApiError:
                self._own.withdraw_note(key, annotation)
                raise

        self._status.submit((f"PodGroup {annotation}", key), PendingWrite((uid, value or ""), write), delay_seconds=0)
