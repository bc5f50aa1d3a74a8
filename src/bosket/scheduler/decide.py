"""`decide`: the one decision function, pure and deterministic, called by the live scheduler, replay, tests and
benchmarks.

A caller that measures steps passes a `StepTimer`; `decide` itself reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bosket.kube.codec import gc_paused
from bosket.scheduler.actions import ACTIONS, SEARCHING
from bosket.scheduler.actions.allocate import ALLOCATE, allocate_what_is_left
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.framework.plugin import Plugin, closing, installed_plugins, make_plugin
from bosket.scheduler.framework.session import Session, StepTimer, untimed
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.model.proposal import Proposals
from bosket.scheduler.model.snapshot import Snapshot
from bosket.scheduler.plugins import BUILT_IN


def decide(
    snapshot: Snapshot,
    configuration: Configuration,
    timer: StepTimer = untimed,
    *,
    proposals: Proposals | None = None,
) -> Decisions:
    """The decisions for the cluster in the snapshot. Reads nothing else, changes nothing.

    `proposals`: findings of searches on earlier snapshots, to be checked on this one. No other victims are searched for
    then; an empty mapping makes a cycle that only places.
    """
    with gc_paused():  # a cycle makes many objects but no reference cycles; collecting would be a third of its cost
        plugins = make_plugins(configuration)
        with timer("open", ""):
            session = open_session(snapshot, configuration, timer, plugins)
            session.proposals = proposals
        for name in configuration.actions:
            with timer("action", name):
                run_action(session, name)
        # After all actions, so that gangs outside KAI's estimates can't take room that a KAI decision would use.
        if ALLOCATE in configuration.actions:
            allocate_what_is_left(session)
        with timer("close", ""):
            return _close(session, configuration, plugins, timer)


def open_session(
    snapshot: Snapshot, configuration: Configuration, timer: StepTimer = untimed, plugins: Sequence[Plugin] = ()
) -> Session:
    """Opens a session: constructs the ledgers and lets every plugin register."""
    session = Session(snapshot, configuration)
    session.timer = timer
    for choice, plugin in zip(configuration.plugins, plugins or make_plugins(configuration), strict=True):
        with timer("plugin", choice.name):
            try:
                plugin.open(session)
            except Exception as error:
                error.add_note(f"plugin {choice.name!r} failed when a session opened")
                raise
    session.extensions.freeze()
    if session.extensions.reservers:
        session.outcome.reservations = session.extensions.reservers[0].reserve()
    return session


def _close(session: Session, configuration: Configuration, plugins: Sequence[Plugin], timer: StepTimer) -> Decisions:
    """Closes the session, then calls the plugins' `close`. A plugin that raises there loses no decisions."""
    decisions, failures = session.close(), []
    if not session.extensions.scenario_generators:
        idle = tuple(name for name in configuration.actions if name in SEARCHING)
        decisions = replace(decisions, idle_actions=idle)
    for choice, plugin in zip(configuration.plugins, plugins, strict=True):
        if (closed := closing(plugin)) is not None:
            with timer("plugin close", choice.name):
                try:
                    closed.close(session.snapshot, decisions)
                except Exception as error:
                    failures.append((choice.name, f"{type(error).__name__}: {error}"))
    return replace(decisions, plugin_failures=tuple(failures)) if failures else decisions


def run_action(session: Session, name: str) -> None:
    """Runs one action by its configured name."""
    session.action = name
    ACTIONS[name](session)
    session.outcome.end_step(name)


def known_part(configuration: Configuration) -> tuple[Configuration, list[str]]:
    """The configuration without unknown actions and plugins, and the names of these ("action reclaim").

    A configuration may have been written for another version, or for KAI.
    """
    plugins = {*BUILT_IN, *installed_plugins()}
    missing = [f"action {name}" for name in configuration.actions if name not in ACTIONS]
    missing += [f"plugin {choice.name}" for choice in configuration.plugins if choice.name not in plugins]
    known = replace(
        configuration,
        actions=tuple(name for name in configuration.actions if name in ACTIONS),
        plugins=tuple(choice for choice in configuration.plugins if choice.name in plugins),
    )
    return known, missing


def about_idle_actions(names: Iterable[str]) -> str:
    """The warning about `Decisions.idle_actions`."""
    return (
        f"no configured plugin generates scenarios (sg-nodelocalgreedy, sg-multinodegang), "
        f"so {', '.join(names)} will never evict anybody"
    )


def make_plugins(configuration: Configuration) -> list[Plugin]:
    """The configured plugins, new for one session. Raises ConfigurationError for one that can't be constructed."""
    return [make_plugin(choice, BUILT_IN) for choice in configuration.plugins]
