"""Which resource serves a kind: from our own table, else from what the API server says it serves.

An owner reference names a kind, a request needs its plural and scope. Discovery is asked when a kind is met for the
first time, and, when even that doesn't know it, again a while later: CRDs may still be on their way.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from bosket.api.resource import AnyResource, Resource
from bosket.api.table import resource_for
from bosket.kube.client import Client
from bosket.runtime.clock import Clock
from bosket.services.podgrouper.owner import GroupVersionKind

#: Discovery is asked at most this often.
_REFRESH_SECONDS: Final = 10.0


class KindDirectory:
    """Kinds by group, version and name."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._found: dict[GroupVersionKind, Resource[dict[str, Any]]] = {}
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def find(self, gvk: GroupVersionKind) -> AnyResource | None:
        """The resource of a kind; None when the API server doesn't serve it."""
        known = resource_for(gvk.api_version, gvk.kind)
        if known is not None:
            return known
        if gvk not in self._found:
            await self._refresh()
        return self._found.get(gvk)

    async def _refresh(self) -> None:
        async with self._asking:
            if self._clock.monotonic() - self._asked < _REFRESH_SECONDS:
                return
            self._found = {
                GroupVersionKind(each.group, each.version, each.kind): each for each in await self._client.discover()
            }
            self._asked = self._clock.monotonic()
