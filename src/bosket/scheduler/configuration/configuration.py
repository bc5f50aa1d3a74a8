"""The scheduler's configuration, as data: which actions, in which order, with which plugins and bounds.

How it is read from KAI's file, and written again, is the business of `configuration_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bosket.api.kai import UsageDBConfig
from bosket.scheduler.configuration.settings import Settings

#: In a map of budgets, the key for all that have none of their own.
DEFAULT_KEY: Final = "default"


class ConfigurationError(ValueError):
    """A configuration that can't be followed, with the key that is wrong."""


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """A plugin to use, with its arguments."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


#: KAI's own default, in its order, as far as the plugins are here.
DEFAULT_PLUGINS: Final = (
    PluginChoice("predicates"),
    PluginChoice("proportion"),
    PluginChoice("priority"),
    PluginChoice("elastic"),
    PluginChoice("kubeflow"),
    PluginChoice("ray"),
    PluginChoice("nodeavailability"),
    PluginChoice("gpusharingorder"),
    PluginChoice("gpupack"),
    PluginChoice("resourcetype"),
    PluginChoice("subgrouporder"),
    PluginChoice("taskorder"),
    PluginChoice("nominatednode"),
    PluginChoice("dynamicresources"),
    PluginChoice("nodeplacement", {"cpu": "binpack", "gpu": "binpack"}),
    PluginChoice("minruntime"),
    PluginChoice("topology"),
    PluginChoice("snapshot"),
    PluginChoice("sg-nodelocalgreedy"),
    PluginChoice("sg-multinodegang"),
    PluginChoice("reflectjoborder"),  # not in KAI's, where it costs every cycle; here only when somebody asks
)


@dataclass(frozen=True, slots=True)
class SearchBudgets:
    """How long a search for victims may go on, in seconds; 0 is without end. `solver.budget` makes steps of them."""

    #: by action; those that aren't named have that of `default`
    action: Mapping[str, float] = field(default_factory=lambda: {DEFAULT_KEY: 300.0})
    job: float = 240.0
    least_per_job: float = 0.0  #: what a job gets even when its action's budget is used up
    #: by generator of scenarios; those that aren't named have that of `default`
    generator: Mapping[str, float] = field(
        default_factory=lambda: {DEFAULT_KEY: 120.0, "NodeLocalGreedy": 30.0, "MultiNodeGang": 120.0}
    )


@dataclass(frozen=True, slots=True)
class Configuration:
    """What `decide` does: which actions, in which order, with which plugins."""

    actions: tuple[str, ...] = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    plugins: tuple[PluginChoice, ...] = DEFAULT_PLUGINS
    #: action → how many jobs of a queue it tries at most; no bound for actions that aren't named
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    search_budgets: SearchBudgets = field(default_factory=SearchBudgets)
    #: where the history of what queues used is found, checked; for the time-based fair share
    usage_db: UsageDBConfig | None = None
