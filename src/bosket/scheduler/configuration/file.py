"""The scheduler's configuration file, in KAI's format: read, checked, and written again.

    actions: "allocate"
    tiers:
    - plugins:
      - name: predicates
      - name: nodeplacement
        arguments: {cpu: binpack, gpu: spread}
    queueDepthPerAction: {allocate: 25}
    scenarioSearchBudgets: {maxJobSearchDuration: 4m}
    usageDBConfig: {clientType: prometheus, connectionString: "http://prometheus:9090"}

Keys that are missing fall back to the defaults one by one. Tiers are flattened: only the order of plugins counts. What
is wrong raises `ConfigurationError` with the key; what has no effect, here or in KAI, is reported and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from bosket.api.document import UnreadableDocument, read_yaml
from bosket.api.time import InvalidDuration, format_duration, parse_duration
from bosket.scheduler.configuration.configuration import (
    DEFAULT_KEY,
    Configuration,
    ConfigurationError,
    PluginChoice,
    SearchBudgets,
)
from bosket.scheduler.configuration.usage_db import usage_db_document, usage_db_from

Report = Callable[[str], None]

#: A queue depth that is none.
UNBOUNDED: Final = -1
_KEYS: Final = ("actions", "tiers", "queueDepthPerAction", "scenarioSearchBudgets", "usageDBConfig")
_PLUGIN_KEYS: Final = ("name", "arguments")
_SEARCHING_ACTIONS: Final = ("reclaim", "preempt", "consolidation")


class _Loader(yaml.SafeLoader):
    """Leaves times as the text that they are, as KAI's reader does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_configuration(text: str, *, known_actions: Iterable[str], report: Report | None = None) -> Configuration:
    """Reads a configuration file; `report` is called with settings that have no effect. Actions must be known, as in
    KAI."""
    try:
        document = read_yaml(text, loader=_Loader) or {}
    except UnreadableDocument as error:
        raise ConfigurationError(str(error)) from error
    configuration = configuration_from(document, report)
    known = frozenset(known_actions)
    for name in configuration.actions:
        if name not in known:
            raise ConfigurationError(f"actions names {name!r}; known are {', '.join(sorted(known))}")
    return configuration


def configuration_from(document: Any, report: Report | None = None) -> Configuration:
    """The configuration in a decoded document, whether or not its actions and plugins are there."""
    if not isinstance(document, dict):
        raise ConfigurationError(f"the document must be a map, it is {type(document).__name__}")
    report = report or (lambda _: None)
    for key in document:
        if key not in _KEYS:
            report(f"{key} is no key of the configuration and has no effect; there are {', '.join(_KEYS)}")
    defaults = Configuration()
    return Configuration(
        actions=_actions(document["actions"]) if document.get("actions") else defaults.actions,
        plugins=tuple(_plugins(document["tiers"], report)) if document.get("tiers") else defaults.plugins,
        queue_depth=_queue_depth(document.get("queueDepthPerAction") or {}),
        search_budgets=_search_budgets(document.get("scenarioSearchBudgets") or {}, report),
        usage_db=usage_db_from(document["usageDBConfig"], report) if document.get("usageDBConfig") else None,
    )


def configuration_document(configuration: Configuration) -> dict[str, Any]:
    """The configuration as `configuration_from` reads it; credentials in an address are left out."""
    budgets = configuration.search_budgets
    document: dict[str, Any] = {
        "actions": ", ".join(configuration.actions),
        "tiers": [{"plugins": [_plugin_document(choice) for choice in configuration.plugins]}],
        "scenarioSearchBudgets": {
            "maxActionSearchDuration": {key: format_duration(value) for key, value in budgets.action.items()},
            "maxJobSearchDuration": format_duration(budgets.job),
            "minJobSearchDuration": format_duration(budgets.least_per_job),
            "maxGeneratorSearchDuration": {key: format_duration(value) for key, value in budgets.generator.items()},
        },
    }
    if configuration.queue_depth:
        document["queueDepthPerAction"] = dict(configuration.queue_depth)
    if configuration.usage_db is not None:
        document["usageDBConfig"] = usage_db_document(configuration.usage_db)
    return document


def _plugin_document(choice: PluginChoice) -> dict[str, Any]:
    return {"name": choice.name, **({"arguments": dict(choice.arguments)} if choice.arguments else {})}


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


def _plugins(tiers: Any, report: Report) -> Iterator[PluginChoice]:
    for tier_number, tier in enumerate(tiers if isinstance(tiers, list) else [tiers]):
        plugins = tier.get("plugins") if isinstance(tier, dict) else None
        if not isinstance(plugins, list):
            raise ConfigurationError(f"tiers[{tier_number}].plugins must be a list")
        for number, plugin in enumerate(plugins):
            yield _plugin(f"tiers[{tier_number}].plugins[{number}]", plugin, report)


def _plugin(where: str, plugin: Any, report: Report) -> PluginChoice:
    name = plugin.get("name") if isinstance(plugin, dict) else None
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{where}.name is missing")
    arguments = plugin.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise ConfigurationError(f"{where}.arguments must be a map")
    for key in plugin:
        if key not in _PLUGIN_KEYS:  # KAI has switches such as disableJobOrder, and doesn't look at them either
            report(f"{where}.{key} of plugin {name} has no effect")
    return PluginChoice(name, {str(key): _argument(value) for key, value in arguments.items()})


def _argument(value: Any) -> str:
    """An argument is a text; YAML takes `true` for something else unless it is quoted."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _search_budgets(document: Any, report: Report) -> SearchBudgets:
    where = "scenarioSearchBudgets"
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where} must be a map, it is {document!r}")
    defaults = SearchBudgets()
    action = _durations(f"{where}.maxActionSearchDuration", document.get("maxActionSearchDuration"))
    for name in action.keys() - {DEFAULT_KEY, *_SEARCHING_ACTIONS}:
        report(f"{where}.maxActionSearchDuration.{name} has no effect: the action searches for nothing")
    generator = _durations(f"{where}.maxGeneratorSearchDuration", document.get("maxGeneratorSearchDuration"))
    for name in generator.keys() - defaults.generator.keys():
        known = ", ".join(defaults.generator)
        raise ConfigurationError(f"{where}.maxGeneratorSearchDuration names {name!r}; known are {known}")
    budgets = SearchBudgets(
        action={**defaults.action, **action},
        job=_duration(f"{where}.maxJobSearchDuration", document.get("maxJobSearchDuration"), defaults.job),
        least_per_job=_duration(
            f"{where}.minJobSearchDuration", document.get("minJobSearchDuration"), defaults.least_per_job
        ),
        # A default applies to all that aren't named.
        generator=generator if DEFAULT_KEY in generator else {**defaults.generator, **generator},
    )
    if budgets.job and budgets.least_per_job >= budgets.job:
        raise ConfigurationError(
            f"{where}.minJobSearchDuration is {format_duration(budgets.least_per_job)}, it must be less than "
            f"maxJobSearchDuration, which is {format_duration(budgets.job)}"
        )
    return budgets


def _durations(where: str, values: Any) -> Mapping[str, float]:
    if not isinstance(values or {}, dict):
        raise ConfigurationError(f"{where} must be a map of durations, it is {values!r}")
    return {str(key): _duration(f"{where}.{key}", value, 0.0) for key, value in (values or {}).items()}


def _duration(where: str, value: Any, default: float) -> float:
    if value is None:
        return default
    try:
        seconds = parse_duration(str(value))
    except InvalidDuration as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if seconds < 0:
        raise ConfigurationError(f"{where} is {value}, it must not be negative")
    return seconds
