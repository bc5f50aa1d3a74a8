"""The backends that there are: ours, and those of other installed packages.

A new one is a class here, or a line in the packaging metadata of another package:

    [project.entry-points."bosket.grove.backends"]
    example = "example.backend:ExampleBackend"

Those of other packages are asked first, in order of their names, then ours: specific ones before KAI's, which takes
whatever nobody else does. One of the name of ours takes its place.
"""

from __future__ import annotations

import logging
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from bosket.grove.backends.backend import SchedulerBackend
from bosket.grove.backends.default import DefaultBackend
from bosket.grove.backends.kai import KaiBackend
from bosket.grove.backends.koordinator import KoordinatorBackend
from bosket.grove.backends.volcano import VolcanoBackend
from bosket.grove.backends.yunikorn import YuniKornBackend

_log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "bosket.grove.backends"
#: In the order in which they are asked.
BUILT_IN: Final[tuple[type[SchedulerBackend], ...]] = (
    DefaultBackend,
    KoordinatorBackend,
    VolcanoBackend,
    YuniKornBackend,
    KaiBackend,
)


def load_backends() -> list[SchedulerBackend]:
    """Those of other packages, then ours; one that can't be loaded is named and left out."""
    found: list[SchedulerBackend] = []
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        backend = _load(point)
        if backend is not None:
            found.append(backend)
    names = {backend.name for backend in found}
    return [*found, *(kind() for kind in BUILT_IN if kind.name not in names)]


def _load(point: EntryPoint) -> SchedulerBackend | None:
    try:
        made = point.load()()
    except Exception as error:  # whatever another package does when it is imported
        _log.exception("scheduler backend not loaded", extra={"backend": point.name, "error": repr(error)})
        return None
    if not isinstance(made, SchedulerBackend):
        _log.error("scheduler backend not loaded: it is no SchedulerBackend", extra={"backend": point.name})
        return None
    return made
