"""Policies of a trace's simulation, each a configuration of the scheduler.

greedy    the scheduler's default for jobs that nobody evicts: in order of age, whoever fits is placed
backfill  the same, with reservations for large gangs that have waited for long: smaller jobs pass if they end in time
fifo      strict order: as long as the oldest job of a queue waits, nobody behind it is placed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bosket.scheduler.actions.allocate import ALLOCATE
from bosket.scheduler.configuration.configuration import DEFAULT_PLUGINS, Configuration, PluginChoice

Policy = Literal["greedy", "backfill", "fifo"]


def configuration_of(policy: Policy, backfill: Mapping[str, str] | None = None) -> Configuration:
    """What the scheduler is configured with; `backfill`: arguments of the plugin.

    Nobody is evicted, unless the plugin is told to: a trace doesn't say who may be.
    """
    plugins: tuple[PluginChoice, ...] = DEFAULT_PLUGINS
    if policy == "backfill":
        plugins = (*plugins, PluginChoice("backfill", backfill or {}))
    depth = {ALLOCATE: 1} if policy == "fifo" else {}
    return Configuration(actions=(ALLOCATE,), plugins=plugins, queue_depth=depth)
