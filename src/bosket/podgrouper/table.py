"""Which kind goes to which grouper.

A new kind is a line here, or a line in the packaging metadata of another installed package:

    [project.entry-points."bosket.groupers"]
    "example.com/v1/Simulation" = "example.grouping:simulation"

where `simulation` is a `Grouper`, a function `Workload -> Grouping`; the version may be `*`. Kinds that nobody lists
follow the default.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from bosket.podgrouper.groupers.apps import deployment
from bosket.podgrouper.groupers.batch import cron_job, job
from bosket.podgrouper.groupers.default import default
from bosket.podgrouper.groupers.pod import pod
from bosket.podgrouper.owner import GroupVersionKind
from bosket.podgrouper.workload import Grouper

_log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "bosket.groupers"

#: by group/version/Kind, as in an owner reference's apiVersion and kind
GROUPERS: Final[Mapping[str, Grouper]] = {
    "v1/Pod": pod,
    "apps/v1/Deployment": deployment,
    "apps/v1/ReplicaSet": default,
    "apps/v1/StatefulSet": default,
    "batch/v1/CronJob": cron_job,
    "batch/v1/Job": job,
}


class GrouperTable:
    """The groupers in force."""

    def __init__(self, groupers: Mapping[str, Grouper] = GROUPERS) -> None:
        self._groupers = {_kind(text): grouper for text, grouper in groupers.items()}

    def find(self, gvk: GroupVersionKind) -> Grouper:
        """The grouper of exactly this kind, else of any version of it, else the default."""
        return self._groupers.get(gvk) or self._groupers.get(gvk._replace(version="*")) or default


def load_table(found: Iterable[EntryPoint] | None = None) -> GrouperTable:
    """Our groupers and, before them, those that other packages registered; one that can't be loaded is left out."""
    groupers = dict(GROUPERS)
    for entry in entry_points(group=ENTRY_POINTS) if found is None else found:
        try:
            _kind(entry.name)
            groupers[entry.name] = entry.load()
        except (ImportError, AttributeError, ValueError) as error:
            _log.warning(
                "grouper can't be loaded", extra={"kind": entry.name, "from": entry.value, "error": str(error)}
            )
    return GrouperTable(groupers)


def _kind(text: str) -> GroupVersionKind:
    api_version, _, kind = text.rpartition("/")
    if not api_version or not kind:
        raise ValueError(f'"{text}" names no kind; expected group/version/Kind, or version/Kind for the core group')
    return GroupVersionKind.of(api_version, kind)
