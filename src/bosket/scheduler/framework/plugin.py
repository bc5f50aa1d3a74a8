"""Plugins: objects that fill a session's extension points when it opens, found by name.

Bosket's own are registered below `bosket.scheduler.plugins`; another installed package adds its own through the entry
point group `bosket.scheduler.plugins`, naming a class that is constructed with the configuration's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from bosket.scheduler.framework.session import Session

ENTRY_POINT_GROUP = "bosket.scheduler.plugins"


class Plugin(Protocol):
    """Takes part in a session by registering with its extension points. Keeps no state between sessions."""

    def open(self, session: Session) -> None: ...


PluginFactory = Callable[[Mapping[str, str]], Plugin]


@cache
def installed_plugins() -> Mapping[str, PluginFactory]:
    """Plugins of other packages, by name."""
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINT_GROUP)}
