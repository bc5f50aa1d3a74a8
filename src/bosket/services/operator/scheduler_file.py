"""A shard's settings as the scheduler's configuration file (`config.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from bosket.api.kai.config import PrometheusConfig
from bosket.api.kai.shard import ActionConfig, MinRuntime, PlacementStrategy, PluginConfig, SchedulingShardSpec
from bosket.services.operator.common import Common

BINPACK: Final = "binpack"
SPREAD: Final = "spread"
FRAGMENTATION: Final = "fragmentation"  #: for GPUs alone
#: Higher ones come first.
ACTIONS: Final = {"allocate": 500, "consolidation": 400, "reclaim": 300, "preempt": 200, "stalegangeviction": 100}
PLUGINS: Final = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    "gpuspread": 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
}


#: Plugins of the scheduler beside those that are on by default.
MORE_PLUGINS: Final = frozenset({"numa", "reflectjoborder"})
#: Plugins that generate scenarios of victims, and actions that without one of them never evict anybody.
GENERATORS: Final = frozenset({"sg-nodelocalgreedy", "sg-multinodegang"})
_SEARCHING: Final = frozenset({"consolidation", "reclaim", "preempt"})


class _Choice(NamedTuple):
    """Whether something takes part, and where in the order."""

    enabled: bool
    priority: int
    arguments: Mapping[str, str]


def render(spec: SchedulingShardSpec, common: Common) -> str:
    """The file's text; the same for equal shards."""
    document: dict[str, Any] = {
        "actions": ", ".join(enabled_actions(spec)),
        "tiers": [{"plugins": _plugins(spec)}],
    }
    if spec.queueDepthPerAction:
        document["queueDepthPerAction"] = dict(spec.queueDepthPerAction)
    if spec.scenarioSearchBudgets is not None:
        document["scenarioSearchBudgets"] = msgspec.to_builtins(spec.scenarioSearchBudgets)
    if spec.usageDBConfig is not None:
        usage = msgspec.to_builtins(spec.usageDBConfig)
        if not spec.usageDBConfig.connectionString and not spec.usageDBConfig.connectionStringEnvVar:
            usage["connectionString"] = prometheus_address(common)
        document["usageDBConfig"] = usage
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def enabled_actions(spec: SchedulingShardSpec) -> list[str]:
    """In order. Consolidation would undo what a spreading strategy does, and is off with one unless it is asked for."""
    strategies = spec.placementStrategy or PlacementStrategy()
    spreads = SPREAD in (strategies.gpu, strategies.cpu)
    chosen = {
        name: _Choice(not (name == "consolidation" and spreads), priority, {}) for name, priority in ACTIONS.items()
    }
    for name, given in spec.actions.items():
        chosen[name] = _changed(chosen.get(name), given)
    return _in_order(chosen)


def idle_actions(spec: SchedulingShardSpec) -> list[str]:
    """Actions that are on and never find victims, because no plugin generates scenarios; a foreign plugin may."""
    plugins = {each["name"] for each in _plugins(spec)}
    if plugins & GENERATORS or plugins - PLUGINS.keys() - MORE_PLUGINS:
        return []
    return [name for name in enabled_actions(spec) if name in _SEARCHING]


def prometheus_address(common: Common) -> str:
    """Of the Prometheus that the Config deploys or names; empty when there is none."""
    prometheus = common.config.spec.prometheus or PrometheusConfig()
    if prometheus.enabled and not prometheus.externalPrometheusUrl:
        return f"http://usage-prometheus.{common.namespace}.svc.cluster.local:9090"
    return prometheus.externalPrometheusUrl or ""


def _plugins(spec: SchedulingShardSpec) -> list[dict[str, Any]]:
    strategies = spec.placementStrategy or PlacementStrategy()
    gpu, cpu = strategies.gpu or BINPACK, strategies.cpu or BINPACK
    runtime = spec.minRuntime or MinRuntime()
    minimums = {
        "defaultPreemptMinRuntime": runtime.preemptMinRuntime,
        "defaultReclaimMinRuntime": runtime.reclaimMinRuntime,
    }
    arguments: dict[str, dict[str, str]] = {
        "nodeplacement": {"cpu": cpu, "gpu": gpu},
        "minruntime": {name: value for name, value in minimums.items() if value is not None},
        "proportion": {"kValue": f"{spec.kValue:g}"} if spec.kValue is not None else {},
    }
    off = {"gpupack", "gpusharingorder"} if gpu == SPREAD else {"gpuspread"}
    chosen = {name: _Choice(name not in off, priority, arguments.get(name, {})) for name, priority in PLUGINS.items()}
    for name, given in spec.plugins.items():
        chosen[name] = _changed(chosen.get(name), given)
    return [
        {"name": name, **({"arguments": dict(chosen[name].arguments)} if chosen[name].arguments else {})}
        for name in _in_order(chosen)
    ]


def _changed(default: _Choice | None, given: PluginConfig | ActionConfig) -> _Choice:
    """What is left out stays as it is by default; arguments are replaced as a whole."""
    known = default or _Choice(True, 0, {})
    arguments = given.arguments if isinstance(given, PluginConfig) and given.arguments else known.arguments
    return _Choice(
        known.enabled if given.enabled is None else given.enabled,
        known.priority if given.priority is None else given.priority,
        arguments,
    )


def _in_order(chosen: Mapping[str, _Choice]) -> list[str]:
    return sorted((name for name in chosen if chosen[name].enabled), key=lambda name: (-chosen[name].priority, name))
