"""What tests of backfill have in common: jobs with run times, and a configuration that holds nodes for gangs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bosket.api.kai import PodGroup
from bosket.api.keys import RUN_TIME_LIMIT_ANNOTATION
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration, PluginChoice
from bosket.testing.build import job
from bosket.testing.cluster import NOW, configured

HOUR = 3600.0


def backfilling(
    *actions: str, after: str = "1h", large: int = 16, most: int = 4, preemptible: str = "wait"
) -> Configuration:
    base = configured(*actions or ("allocate",))
    arguments = {"largeGPUs": str(large), "after": after, "reservations": str(most), "preemptible": preemptible}
    return replace(base, plugins=(*base.plugins, PluginChoice("backfill", arguments)))


def timed(
    name: str,
    size: int = 1,
    *,
    hours: float | None = None,
    waited: float = 0.0,
    ran: float | None = None,
    on: str | Sequence[str] = (),
    **more: Any,
) -> list[KubeObject]:
    """A job of whole nodes that runs for so many hours; it has waited, or run, for so many."""
    made = job(
        name,
        size,
        gpus=more.pop("gpus", 8),
        on=on,
        created=NOW - (waited if ran is None else ran) * HOUR,
        started=None if ran is None else NOW - ran * HOUR,
        **more,
    )
    if hours is None:
        return made
    limit = {RUN_TIME_LIMIT_ANNOTATION: f"{hours:g}h"}
    return [_annotated(each, limit) if isinstance(each, PodGroup) else each for each in made]


def _annotated(group: PodGroup, annotations: dict[str, str]) -> PodGroup:
    metadata = msgspec.structs.replace(group.metadata, annotations={**group.metadata.annotations, **annotations})
    return msgspec.structs.replace(group, metadata=metadata)
