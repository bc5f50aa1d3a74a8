"""The configuration file is KAI's; what is wrong with it is said by key."""

import pytest

from bosket.scheduler.framework.configuration import (
    Configuration,
    ConfigurationError,
    PluginChoice,
    parse_configuration,
)

TEXT = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: predicates
- plugins:
  - name: nodeplacement
    arguments: {cpu: spread}
queueDepthPerAction: {allocate: 25, reclaim: -1}
"""


def parse(text):
    return parse_configuration(text, known_actions=["allocate", "reclaim"])


def test_actions_plugins_and_depths_are_read_and_tiers_flattened():
    assert parse(TEXT) == Configuration(
        ("allocate", "reclaim"),
        (PluginChoice("predicates"), PluginChoice("nodeplacement", {"cpu": "spread"})),
        {"allocate": 25},
    )


def test_what_is_missing_has_its_default():
    assert parse("") == Configuration()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("actions: [", "not a YAML document"),
        ("- allocate", "the document must be a map, it is list"),
        ("actions: 3", "actions must be a comma-separated text, it is 3"),
        ("actions: allocate, dance", "actions names 'dance'; known are allocate, reclaim"),
        ("tiers: [{}]", r"tiers\[0\].plugins must be a list"),
        ("tiers: [{plugins: [{}]}]", r"tiers\[0\].plugins\[0\].name is missing"),
        ("tiers: [{plugins: [{name: a, arguments: 3}]}]", r"tiers\[0\].plugins\[0\].arguments must be a map"),
        ("queueDepthPerAction: 3", "queueDepthPerAction must be a map of numbers, it is 3"),
        ("queueDepthPerAction: {allocate: -2}", "queueDepthPerAction.allocate must be a number of jobs, it is -2"),
    ],
)
def test_what_is_wrong_is_named(text, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        parse(text)
