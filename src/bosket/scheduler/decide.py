"""The one decision function: pure and deterministic. The live scheduler, tests and benchmarks all call it."""

from __future__ import annotations

from dataclasses import replace

from bosket.kube.codec import gc_paused
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.decisions import Decisions
from bosket.scheduler.framework.configuration import Configuration, ConfigurationError
from bosket.scheduler.framework.plugin import Plugin, installed_plugins
from bosket.scheduler.framework.session import Session
from bosket.scheduler.plugins import BUILT_IN
from bosket.scheduler.snapshot.snapshot import Snapshot


def decide(snapshot: Snapshot, configuration: Configuration) -> Decisions:
    """What to do with the cluster as the snapshot shows it. Reads nothing else, changes nothing."""
    with gc_paused():  # a cycle makes many objects and no cycles of them; looking for these is a third of its cost
        session = open_session(snapshot, configuration)
        for name in configuration.actions:
            run_action(session, name)
        return session.close()


def open_session(snapshot: Snapshot, configuration: Configuration) -> Session:
    """A session with its plugins; the first step of `decide`, for those who measure the steps."""
    session = Session(snapshot, configuration)
    for plugin in make_plugins(configuration):
        plugin.open(session)
    return session


def run_action(session: Session, name: str) -> None:
    """One action, by its configured name."""
    session.action = name
    ACTIONS[name](session)


def known_part(configuration: Configuration) -> tuple[Configuration, list[str]]:
    """The configuration without actions and plugins that aren't there, and the names of these.

    A recorded configuration may ask for what another version of the scheduler has.
    """
    plugins = {*BUILT_IN, *installed_plugins()}
    missing = [name for name in configuration.actions if name not in ACTIONS]
    missing += [choice.name for choice in configuration.plugins if choice.name not in plugins]
    known = replace(
        configuration,
        actions=tuple(name for name in configuration.actions if name in ACTIONS),
        plugins=tuple(choice for choice in configuration.plugins if choice.name in plugins),
    )
    return known, missing


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
