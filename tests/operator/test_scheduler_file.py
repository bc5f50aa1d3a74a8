"""A shard's settings as the file that the scheduler reads."""

from __future__ import annotations

from typing import Any

import yaml

from bosket.api.kai.config import PrometheusConfig
from bosket.api.kai.shard import (
    ActionConfig,
    MinRuntime,
    PlacementStrategy,
    PluginConfig,
    ScenarioSearchBudgets,
    SchedulingShardSpec,
    UsageDBConfig,
)
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.configuration.file import parse_configuration
from bosket.scheduler.decide import known_part, make_plugins
from bosket.services.operator.common import Common
from bosket.services.operator.options import Options
from bosket.services.operator.scheduler_file import render
from tests.operator.scene import config


def read(spec: SchedulingShardSpec, **of_config: Any) -> Configuration:
    """As the scheduler reads it, without a word of complaint."""
    text = render(spec, Common(config(**of_config), Options()))
    complaints: list[str] = []
    found = parse_configuration(text, known_actions=ACTIONS, report=complaints.append)
    assert complaints == []
    known, missing = known_part(found)
    assert not missing
    make_plugins(known)
    return found


def arguments(found: Configuration) -> dict[str, dict[str, str]]:
    return {each.name: dict(each.arguments) for each in found.plugins}


def test_a_shard_that_says_nothing_is_kais_default_in_its_order() -> None:
    found = read(SchedulingShardSpec())
    assert found.actions == ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")
    names = [each.name for each in found.plugins]
    assert names[:3] == ["predicates", "proportion", "priority"]
    assert names[-3:] == ["gpupack", "nodeplacement", "gpusharingorder"]
    assert "gpuspread" not in names
    assert arguments(found)["nodeplacement"] == {"cpu": "binpack", "gpu": "binpack"}


def test_spreading_switches_plugins_and_consolidation() -> None:
    found = read(SchedulingShardSpec(placementStrategy=PlacementStrategy(gpu="spread")))
    assert "consolidation" not in found.actions
    names = {each.name for each in found.plugins}
    assert "gpuspread" in names
    assert names.isdisjoint({"gpupack", "gpusharingorder"})


def test_fragmentation_is_handed_on_and_changes_nothing_else() -> None:
    found = read(SchedulingShardSpec(placementStrategy=PlacementStrategy(gpu="fragmentation")))
    assert arguments(found)["nodeplacement"] == {"cpu": "binpack", "gpu": "fragmentation"}
    packing = read(SchedulingShardSpec())
    assert found.actions == packing.actions
    assert [each.name for each in found.plugins] == [each.name for each in packing.plugins]


def test_run_times_k_depths_and_budgets_are_passed_on() -> None:
    spec = SchedulingShardSpec(
        minRuntime=MinRuntime(preemptMinRuntime="10m", reclaimMinRuntime="1h"),
        kValue=0.5,
        queueDepthPerAction={"allocate": 25},
        scenarioSearchBudgets=ScenarioSearchBudgets(maxActionSearchDuration={"reclaim": "5s"}),
    )
    found = read(spec)
    given = arguments(found)
    assert given["minruntime"] == {"defaultPreemptMinRuntime": "10m", "defaultReclaimMinRuntime": "1h"}
    assert given["proportion"] == {"kValue": "0.5"}
    assert found.queue_depth == {"allocate": 25}
    assert found.search_budgets.action["reclaim"] == 5.0


def test_plugins_and_actions_are_merged_with_the_defaults() -> None:
    spec = SchedulingShardSpec(
        plugins={
            "elastic": PluginConfig(enabled=False),
            "ray": PluginConfig(priority=5000),
            "nodeplacement": PluginConfig(arguments={"cpu": "spread", "gpu": "binpack"}),
            "reflectjoborder": PluginConfig(),
        },
        actions={"preempt": ActionConfig(enabled=False), "reclaim": ActionConfig(priority=1000)},
    )
    found = read(spec)
    names = [each.name for each in found.plugins]
    assert (names[0], names[-1]) == ("ray", "reflectjoborder")
    assert "elastic" not in names
    assert arguments(found)["nodeplacement"]["cpu"] == "spread"
    assert found.actions == ("reclaim", "allocate", "consolidation", "stalegangeviction")


def test_a_history_without_an_address_is_the_configs_prometheus() -> None:
    spec = SchedulingShardSpec(usageDBConfig=UsageDBConfig(clientType="prometheus"))
    text = render(spec, Common(config(prometheus=PrometheusConfig(enabled=True)), Options()))
    address = "http://usage-prometheus.kai-scheduler.svc.cluster.local:9090"
    assert yaml.safe_load(text)["usageDBConfig"] == {"clientType": "prometheus", "connectionString": address}
