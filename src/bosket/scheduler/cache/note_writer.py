"""Annotations of pod groups out: when a job started, was evicted, or became stale.

What is to be written counts in the live state at once, and until it is observed; what is refused no longer counts.
"""

from __future__ import annotations

import math

from bosket.api.kai import PodGroup
from bosket.api.time import format_time
from bosket.kube.client import Client
from bosket.kube.errors import ApiError, ServerError, TooManyRequests
from bosket.scheduler.cache.status_writer import StatusWriter, Wish
from bosket.scheduler.snapshot.state import ClusterState


def stamp(seconds: float) -> str:
    """A time in whole seconds, as KAI writes it; rounded up, so that no grace and no minimum run time is cut short."""
    return format_time(math.ceil(seconds))


class NoteWriter:
    """Writes annotations in the background; `write` never waits."""

    def __init__(self, client: Client, state: ClusterState, status: StatusWriter) -> None:
        self._client, self._state, self._status = client, state, status

    def write(self, group: PodGroup, annotation: str, value: str | None) -> None:
        """Sets the annotation; None takes it away."""
        key, uid = group.key, group.metadata.uid

        async def write() -> None:
            patch = {"metadata": {"uid": uid, "annotations": {annotation: value}}}
            try:
                await self._client.patch(PodGroup, key.name, patch, namespace=key.namespace)
            except (ServerError, TooManyRequests):
                raise  # it may yet be taken
            except ApiError:
                self._state.withdraw_note(key, annotation)
                raise

        self._state.write_note(group, annotation, value)
        self._status.wish((f"PodGroup {annotation}", key), Wish((uid, value or ""), write), delay_seconds=0)
