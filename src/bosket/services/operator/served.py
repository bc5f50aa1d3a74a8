"""Which kinds of other projects the API server has. They may come any time: while one is missed, it is looked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bosket.kube.client import Client
from bosket.runtime.clock import Clock
from bosket.services.operator.kind import AUTOSCALER, OPTIONAL, PROMETHEUS, SERVICE_MONITOR, Dynamic, kind_of
from bosket.services.operator.manifest import Manifest

_WHOSE: Final = {
    SERVICE_MONITOR: "install Prometheus Operator",
    PROMETHEUS: "install Prometheus Operator",
    AUTOSCALER: "install the vertical pod autoscaler",
}


class Served:
    """Remembers for a while what discovery said."""

    def __init__(self, client: Client, clock: Clock, memory_seconds: float) -> None:
        self._client, self._clock, self._memory_seconds = client, clock, memory_seconds
        self._known: frozenset[tuple[str, str]] = frozenset()
        self._looked_at: float | None = None

    async def divide(self, desired: Sequence[Manifest]) -> tuple[list[Manifest], list[str]]:
        """Those whose kind the server has, and a sentence for each kind that it lacks."""
        wanted = {kind_of(each) for each in desired} & set(OPTIONAL)
        lacking = await self._lacking(wanted) if wanted else set()
        sentences = [
            f"{each.kind} ({each.api_version}) is not served by the API server: {_WHOSE[each]}"
            for each in OPTIONAL
            if each in lacking
        ]
        return [each for each in desired if kind_of(each) not in lacking], sentences

    async def _lacking(self, wanted: Iterable[Dynamic]) -> set[Dynamic]:
        now = self._clock.monotonic()
        if self._looked_at is None or now >= self._looked_at + self._memory_seconds:
            self._known = frozenset((each.api_version, each.plural) for each in await self._client.discover())
            self._looked_at = now
        return {each for each in wanted if (each.api_version, each.plural) not in self._known}
