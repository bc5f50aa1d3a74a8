"""Plugins: objects that fill a session's extension points when it opens, found by name.

Bosket's own are registered below `bosket.scheduler.plugins`; another installed package adds its own through the entry
point group `bosket.scheduler.plugins`, naming a class that is constructed with the configuration's arguments. Nothing
of such a package is imported unless the configuration names its plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast, runtime_checkable

from bosket.scheduler.configuration.configuration import ConfigurationError, PluginChoice
from bosket.scheduler.framework.session import Session
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.snapshot import Snapshot

ENTRY_POINT_GROUP = "bosket.scheduler.plugins"


class Plugin(Protocol):
    """Takes part in a session by registering with its extension points. Keeps no state between sessions."""

    def open(self, session: Session) -> None: ...


@runtime_checkable
class ClosingPlugin(Plugin, Protocol):
    """A plugin with a `close` method, which receives the decisions (KAI: OnSessionClose)."""

    def close(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Called after the last action, in the order of the configuration. Both are frozen: nothing of them can be
        changed. What it raises changes no decision: it is logged and counted (`Decisions.plugin_failures`). It holds up
        the cycle, so what takes long (a request to somebody) belongs into a thread or a task.

        In the live scheduler, cycles that place and searches for victims are sessions of their own, in threads of
        their own that may run at the same time, each with plugins of its own. What is about objects that have changed
        by the time that a session ends isn't carried out.
        """
        ...


def closing(plugin: Plugin) -> ClosingPlugin | None:
    """The plugin, if it has a `close` method. Called for every plugin in every cycle: `isinstance` with a protocol
    looks through all of its members, which takes 30 µs each time."""
    return cast(ClosingPlugin, plugin) if callable(getattr(plugin, "close", None)) else None


PluginFactory = Callable[[Mapping[str, str]], Plugin]


@cache
def installed_plugins() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Plugins of other packages, by name; more than one where packages are at odds."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def make_plugin(choice: PluginChoice, built_in: Mapping[str, PluginFactory]) -> Plugin:
    """The plugin, fresh for one session; raises `ConfigurationError` that names it and says why it can't be had."""
    factory, source = built_in.get(choice.name), ""
    if factory is None:
        points = installed_plugins().get(choice.name, ())
        if not points:
            known = ", ".join(sorted({*built_in, *installed_plugins()}))
            raise ConfigurationError(f"there is no plugin {choice.name!r}; known are {known}")
        if len(points) > 1:
            packages = " and ".join(sorted(map(_package, points)))
            raise ConfigurationError(f"plugin {choice.name!r} is offered by {packages}: uninstall all but one")
        source = f" of {_package(points[0])} ({points[0].value})"
        try:
            factory = points[0].load()
        except Exception as error:
            raise ConfigurationError(f"plugin {choice.name!r}{source} can't be imported: {_told(error)}") from error
    try:
        plugin: Plugin = factory(choice.arguments)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"plugin {choice.name!r}{source} can't be made: {_told(error)}") from error
    if not callable(getattr(plugin, "open", None)):
        raise ConfigurationError(f"plugin {choice.name!r}{source} is no plugin: it has no method open(session)")
    return plugin


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else "an unknown package"


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
