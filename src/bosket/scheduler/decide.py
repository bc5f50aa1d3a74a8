"""The one decision function: pure and deterministic. The live scheduler, tests and benchmarks all call it."""

from __future__ import annotations

from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.framework.configuration import Configuration, ConfigurationError
from bosket.scheduler.framework.plugin import Plugin, installed_plugins
from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins import BUILT_IN
from bosket.scheduler.snapshot.snapshot import Snapshot


def decide(snapshot: Snapshot, configuration: Configuration) -> Decisions:
    """What to do with the cluster as the snapshot shows it. Reads nothing else, changes nothing."""
    session = Session(snapshot, configuration.queue_depth)
    for plugin in make_plugins(configuration):
        plugin.open(session)
    for name in configuration.actions:
        session.action = name
        ACTIONS[name](session)
    return session.close()


def make_plugins(configuration: Configuration) -> list[Plugin]:
    """The configured plugins, fresh for one session. Raises ConfigurationError for one that isn't there."""
    plugins = []
    for choice in configuration.plugins:
        factory = BUILT_IN.get(choice.name) or installed_plugins().get(choice.name)
        if factory is None:
            known = ", ".join(sorted({*BUILT_IN, *installed_plugins()}))
            raise ConfigurationError(f"there is no plugin {choice.name!r}; known are {known}")
        plugins.append(factory(choice.arguments))
    return plugins
