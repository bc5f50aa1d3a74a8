"""The configuration file is KAI's; what is wrong with it is said by key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bosket.api.kai import UsageDBConfig
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError, PluginChoice, SearchBudgets
from bosket.scheduler.configuration.file import configuration_document, configuration_from, parse_configuration
from bosket.scheduler.decide import decide, known_part, make_plugins
from bosket.scheduler.loop import service
from bosket.scheduler.options import Options
from bosket.testing.build import gang, node, pod_group, queue
from bosket.testing.cluster import decided, placements, snapshot_of
from tests.present import present
from tests.rig import make_rig

TEXT = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: predicates
- plugins:
  - name: nodeplacement
    arguments: {cpu: spread}
queueDepthPerAction: {allocate: 25, reclaim: -1}
scenarioSearchBudgets:
  maxActionSearchDuration: {reclaim: 90s}
  minJobSearchDuration: 1.5s
  maxGeneratorSearchDuration: {NodeLocalGreedy: 0s}
usageDBConfig:
  clientType: prometheus
  connectionString: http://prometheus:9090
  usageParams: {windowSize: 1w2d, windowType: tumbling, tumblingWindowStartTime: 2026-01-02T03:04:05Z}
"""

#: What KAI runs with where nobody configures it.
KAI_DEFAULT = """
actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"
tiers:
- plugins:
  - {name: predicates}
  - {name: proportion}
  - {name: priority}
  - {name: elastic}
  - {name: kubeflow}
  - {name: ray}
  - {name: nodeavailability}
  - {name: gpusharingorder}
  - {name: gpupack}
  - {name: resourcetype}
  - {name: subgrouporder}
  - {name: taskorder}
  - {name: nominatednode}
  - {name: dynamicresources}
  - {name: nodeplacement, arguments: {cpu: binpack, gpu: binpack}}
  - {name: minruntime}
  - {name: topology}
  - {name: snapshot}
  - {name: sg-nodelocalgreedy}
  - {name: sg-multinodegang}
"""


def parse(text: str, report: Callable[..., Any] | None = None) -> Configuration:
    return parse_configuration(text, known_actions=ACTIONS, report=report)


def test_everything_in_the_file_is_read_and_tiers_are_flattened() -> None:
    found = parse(TEXT)
    assert found.actions == ("allocate", "reclaim")
    assert found.plugins == (PluginChoice("predicates"), PluginChoice("nodeplacement", {"cpu": "spread"}))
    assert found.queue_depth == {"allocate": 25}
    assert found.search_budgets == SearchBudgets(
        action={"default": 300.0, "reclaim": 90.0},
        job=240.0,
        least_per_job=1.5,
        generator={"default": 120.0, "NodeLocalGreedy": 0.0, "MultiNodeGang": 120.0},
    )
    assert isinstance(found.usage_db, UsageDBConfig)
    assert present(found.usage_db.usageParams).tumblingWindowStartTime == "2026-01-02T03:04:05Z"


def test_what_is_missing_has_its_default_one_by_one() -> None:
    assert parse("") == Configuration()
    only_actions = parse("actions: reclaim")
    assert only_actions == Configuration(actions=("reclaim",))
    only_plugins = parse("tiers: [{plugins: [{name: predicates}]}]")
    assert only_plugins == Configuration(plugins=(PluginChoice("predicates"),))


def test_a_default_budget_speaks_for_all_generators_that_are_not_named() -> None:
    budgets = parse("scenarioSearchBudgets: {maxGeneratorSearchDuration: {default: 0s}}").search_budgets
    assert budgets.generator == {"default": 0.0}


def test_what_is_written_down_is_read_back_as_it_was() -> None:
    for configuration in (parse(TEXT), parse(KAI_DEFAULT), Configuration()):
        assert configuration_from(configuration_document(configuration)) == configuration


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("https://me:secret@prometheus:9090/path?token=secret", "https://prometheus:9090/path"),
        ("me:secret@prometheus", "prometheus"),
        ("prometheus:9090", "prometheus:9090"),
    ],
)
def test_credentials_in_an_address_are_not_written_down(address: str, written: str) -> None:
    configuration = Configuration(usage_db=UsageDBConfig(clientType="prometheus", connectionString=address))
    assert configuration_document(configuration)["usageDBConfig"]["connectionString"] == written


def test_the_default_is_kais_as_far_as_the_plugins_are_there() -> None:
    known, _ = known_part(parse(KAI_DEFAULT))
    assert (*known.plugins, PluginChoice("reflectjoborder")) == Configuration().plugins
    assert known.actions == parse(KAI_DEFAULT).actions
    make_plugins(known)


def test_a_configuration_of_kai_is_decided_by_without_what_is_not_there() -> None:
    snapshot = snapshot_of(node("n"), queue("q"), pod_group("g"), gang("g", 1))
    assert placements(decide(snapshot, known_part(parse(KAI_DEFAULT))[0])) == {"g-0": "n"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("queueDepth: 3", "queueDepth is no key of the configuration and has no effect"),
        (
            "tiers: [{plugins: [{name: proportion, disableQueueOrder: true}]}]",
            "tiers[0].plugins[0].disableQueueOrder of plugin proportion has no effect",
        ),
        (
            "scenarioSearchBudgets: {maxActionSearchDuration: {allocate: 1s}}",
            "scenarioSearchBudgets.maxActionSearchDuration.allocate has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_said(text: str, complaint: str) -> None:
    said: list[str] = []
    parse(text, said.append)
    (line,) = said
    assert line.startswith(complaint)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("actions: [", "not a YAML document"),
        ("- allocate", "the document must be a map, it is list"),
        ("actions: 3", "actions must be a comma-separated text, it is 3"),
        (
            "actions: allocate, dance",
            "actions names 'dance'; known are allocate, consolidation, preempt, reclaim, stalegangeviction",
        ),
        ("tiers: [{}]", "tiers[0].plugins must be a list"),
        ("tiers: [{plugins: [{}]}]", "tiers[0].plugins[0].name is missing"),
        ("tiers: [{plugins: [{name: a, arguments: 3}]}]", "tiers[0].plugins[0].arguments must be a map"),
        ("queueDepthPerAction: 3", "queueDepthPerAction must be a map of numbers, it is 3"),
        ("queueDepthPerAction: {allocate: -2}", "queueDepthPerAction.allocate must be a number of jobs, it is -2"),
        ("scenarioSearchBudgets: 3", "scenarioSearchBudgets must be a map, it is 3"),
        (
            "scenarioSearchBudgets: {maxJobSearchDuration: -1s}",
            "scenarioSearchBudgets.maxJobSearchDuration is -1s, it must not be negative",
        ),
        (
            "scenarioSearchBudgets: {maxActionSearchDuration: {reclaim: soon}}",
            "scenarioSearchBudgets.maxActionSearchDuration.reclaim: 'soon' is not a duration",
        ),
        (
            "scenarioSearchBudgets: {maxActionSearchDuration: [1s]}",
            "scenarioSearchBudgets.maxActionSearchDuration must be a map of durations, it is ['1s']",
        ),
        (
            "scenarioSearchBudgets: {maxGeneratorSearchDuration: {Oracle: 1s}}",
            "scenarioSearchBudgets.maxGeneratorSearchDuration names 'Oracle'; known are",
        ),
        (
            "scenarioSearchBudgets: {minJobSearchDuration: 5m}",
            "scenarioSearchBudgets.minJobSearchDuration is 5m0s, it must be less than maxJobSearchDuration",
        ),
        ("usageDBConfig: 3", "usageDBConfig: Expected `object`, got `int`"),
        ("usageDBConfig: {clientType: 3}", "usageDBConfig.clientType: Expected `str`, got `int`"),
        ("usageDBConfig: {clientType: ''}", "usageDBConfig.clientType is missing"),
        (
            "usageDBConfig: {clientType: x, connectionString: a}",
            "usageDBConfig.clientType is 'x'; known are prometheus, builtin, fake, fake-with-history",
        ),
        ("usageDBConfig: {clientType: prometheus}", "usageDBConfig has neither connectionString nor"),
        (
            "usageDBConfig: {clientType: x, connectionString: a, connectionStringEnvVar: b}",
            "usageDBConfig has both connectionString and connectionStringEnvVar",
        ),
    ],
)
def test_what_is_wrong_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(text)
    assert str(error.value).startswith(complaint)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ("fetchInterval: often", "fetchInterval: 'often' is not a duration"),
        ("halfLifePeriod: -1h", "halfLifePeriod is -1h, it must not be negative"),
        ("fetchInterval: 6m, stalenessPeriod: 5m", "stalenessPeriod must be at least the fetchInterval"),
        ("windowSize: week", "windowSize is 'week', it must be a duration such as 1w or 2d"),
        ("windowType: hopping", "windowType is 'hopping'; known are sliding, tumbling, cron"),
        ("windowType: tumbling", "tumblingWindowStartTime: '' is not a time"),
        ("windowType: cron", "cronString is missing, windowType is cron"),
        ("windowType: cron, cronString: 0 25 * * *", "cronString: '25' is no hour: expected 0 to 23"),
        ("windowSize: 0s", "windowSize is '0s', a window must be longer than nothing"),
        ("fetchInterval: 0s", "fetchInterval is 0s, it must be longer than nothing"),
        ("extraParams: {queryResolution: 1us}", "extraParams.queryResolution is 1us, it must be at least 1ms"),
        ("extraParams: {usageQueryTimeout: soon}", "extraParams.usageQueryTimeout: 'soon' is not a duration"),
    ],
)
def test_a_history_that_makes_no_sense_is_refused_by_field(params: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse(f"usageDBConfig: {{clientType: prometheus, connectionString: a, usageParams: {{{params}}}}}")
    assert str(error.value).startswith(f"usageDBConfig.usageParams.{complaint}")


def test_extra_parameters_of_the_usage_db_that_nobody_knows_are_reported() -> None:
    said: list[str] = []
    text = "usageDBConfig: {clientType: builtin, usageParams: {extraParams: {gpuMetric: x, queryResolution: 30s}}}"
    parse_configuration(text, known_actions=ACTIONS, report=said.append)
    assert said == ["usageDBConfig.usageParams.extraParams.gpuMetric has no effect"]


def test_actions_that_will_never_find_victims_are_named() -> None:
    configuration = replace(
        Configuration(), plugins=tuple(each for each in Configuration().plugins if not each.name.startswith("sg-"))
    )
    assert decided(node("n1"), configuration=configuration).idle_actions == ("consolidation", "reclaim", "preempt")
    assert decided(node("n1")).idle_actions == ()
    without = replace(configuration, actions=("allocate", "stalegangeviction"))
    assert decided(node("n1"), configuration=without).idle_actions == ()


@pytest.mark.looptime
async def test_the_running_scheduler_warns_of_them_once(caplog: pytest.LogCaptureFixture) -> None:
    plugins = tuple(each for each in Configuration().plugins if not each.name.startswith("sg-"))
    rig = await make_rig([node("n1", gpus=1), queue("q")])
    with caplog.at_level(logging.WARNING):
        async with rig.running(lambda env: service(env, Options(configuration=Configuration(plugins=plugins)))):
            await rig.clock.sleep(5)
            await rig.apply(node("n2", gpus=1))
            await rig.clock.sleep(5)
    reported = [each for each in caplog.messages if "will never evict anybody" in each]
    assert reported == [
        "no configured plugin generates scenarios (sg-nodelocalgreedy, sg-multinodegang), "
        "so consolidation, reclaim, preempt will never evict anybody"
    ]
