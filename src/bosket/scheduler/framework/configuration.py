"""The scheduler's configuration file, in KAI's format.

    actions: "allocate"
    tiers:
    - plugins:
      - name: predicates
      - name: nodeplacement
        arguments: {cpu: binpack, gpu: spread}
    queueDepthPerAction: {allocate: 25}

Keys that are missing fall back to the defaults one by one. Tiers are flattened: only the order of plugins counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from bosket.scheduler.framework.settings import Settings

#: A queue depth that is none.
UNBOUNDED = -1


class ConfigurationError(ValueError):
    """A configuration that can't be followed, with the key that is wrong."""


@dataclass(frozen=True, slots=True)
class PluginChoice:
    """A plugin to use, with its arguments."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)


DEFAULT_PLUGINS = (
    PluginChoice("predicates"),
    PluginChoice("proportion"),
    PluginChoice("priority"),
    PluginChoice("elastic"),
    PluginChoice("nodeavailability"),
    PluginChoice("resourcetype"),
    PluginChoice("subgrouporder"),
    PluginChoice("taskorder"),
    PluginChoice("nominatednode"),
    PluginChoice("nodeplacement", {"cpu": "binpack", "gpu": "binpack"}),
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """What `decide` does: which actions, in which order, with which plugins."""

    actions: tuple[str, ...] = ("allocate",)
    plugins: tuple[PluginChoice, ...] = DEFAULT_PLUGINS
    #: action → how many jobs of a queue it tries at most; no bound for actions that aren't named
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)


def parse_configuration(text: str, *, known_actions: Iterable[str]) -> Configuration:
    """Reads a configuration file. Raises ConfigurationError naming the key that is wrong."""
    try:
        document = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not a YAML document: {error}") from error
    configuration = configuration_from(document)
    known = frozenset(known_actions)
    for name in configuration.actions:
        if name not in known:
            raise ConfigurationError(f"actions names {name!r}; known are {', '.join(sorted(known))}")
    return configuration


def configuration_from(document: Any) -> Configuration:
    """The configuration in a decoded document, whether or not its actions and plugins are there."""
    if not isinstance(document, dict):
        raise ConfigurationError(f"the document must be a map, it is {type(document).__name__}")
    defaults = Configuration()
    actions = _actions(document["actions"]) if document.get("actions") else defaults.actions
    plugins = tuple(_plugins(document["tiers"])) if document.get("tiers") else defaults.plugins
    return Configuration(actions, plugins, _queue_depth(document.get("queueDepthPerAction") or {}))


def _actions(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise ConfigurationError(f"actions must be a comma-separated text, it is {value!r}")
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _queue_depth(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"queueDepthPerAction must be a map of numbers, it is {value!r}")
    for action, depth in value.items():
        if not isinstance(depth, int) or isinstance(depth, bool) or depth < UNBOUNDED:
            raise ConfigurationError(f"queueDepthPerAction.{action} must be a number of jobs, it is {depth!r}")
    return {str(action): depth for action, depth in value.items() if depth != UNBOUNDED}


def _plugins(tiers: Any) -> Iterable[PluginChoice]:
    for tier_number, tier in enumerate(tiers if isinstance(tiers, list) else [tiers]):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(plugins, list):
            raise ConfigurationError(f"tiers[{tier_number}].plugins must be a list")
        for number, plugin in enumerate(plugins):
            name = plugin.get("name") if isinstance(plugin, dict) else None
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"tiers[{tier_number}].plugins[{number}].name is missing")
            arguments = plugin.get("arguments") or {}
            if not isinstance(arguments, dict):
                raise ConfigurationError(f"tiers[{tier_number}].plugins[{number}].arguments must be a map")
            yield PluginChoice(name, {str(key): str(value) for key, value in arguments.items()})
