"""What recorded configurations ask for and Bosket doesn't have is left out here, and nowhere else.

A case that needs it fails on its merits; once the action or plugin is there, the case counts without a change.
"""

from __future__ import annotations

from dataclasses import replace

from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.framework.configuration import Configuration
from bosket.scheduler.plugins import BUILT_IN


def available(configuration: Configuration) -> Configuration:
    """The configuration without actions and plugins that aren't there."""
    return replace(
        configuration,
        actions=tuple(name for name in configuration.actions if name in ACTIONS),
        plugins=tuple(choice for choice in configuration.plugins if choice.name in BUILT_IN),
    )
