"""Pods that would rather be near others, or away from them: the plugin podaffinity."""

from collections.abc import Sequence

import pytest

from bosket.api.core.affinity import Affinity
from bosket.api.core.pod import Pod
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration, ConfigurationError, PluginChoice
from bosket.scheduler.plugins.podaffinity import PodAffinityScore
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import decided, placements
from tests.scheduler.affinity import away, near, rather_away, rather_near, term

ZONES = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]
DEFAULT = Configuration()


def one(*objects: Pod | Sequence[KubeObject], hard_weight: str = "1") -> dict[str, str]:
    plugins = (*DEFAULT.plugins, PluginChoice("podaffinity", {"hardPodAffinityWeight": hard_weight}))
    return placements(decided(queue("q"), pod_group("g"), *objects, configuration=Configuration(plugins=plugins)))


def member(affinity: Affinity | None = None, app: str = "web") -> Pod:
    return pod("g-0").cpu("1").of_group("g").label("app", app).with_spec(affinity=affinity).build()


def there(name: str, node_name: str, app: str = "db", affinity: Affinity | None = None) -> Pod:
    return pod(name).label("app", app).with_spec(affinity=affinity).running_on(node_name).build()


def test_without_the_plugin_preferences_say_nothing() -> None:
    decisions = decided(
        queue("q"), pod_group("g"), ZONES, there("d", "b1"), member(rather_near(1, term("zone", app="db")))
    )
    assert placements(decisions) == {"g-0": "a1"}


def test_a_pod_goes_where_the_pods_are_that_it_prefers() -> None:
    assert one(ZONES, there("d", "b1"), member(rather_near(1, term("zone", app="db")))) == {"g-0": "b1"}


def test_a_pod_goes_where_the_pods_are_not_that_it_would_rather_avoid() -> None:
    assert one(ZONES, there("d", "a1"), member(rather_away(1, term("zone", app="db")))) == {"g-0": "b1"}


def test_every_pod_counts_with_its_weight() -> None:
    affinity = rather_near(2, term("zone", app="db"))
    assert one(ZONES, there("d", "b1"), there("e", "a1"), there("f", "a2"), member(affinity)) == {"g-0": "a1"}
    assert one(ZONES, there("d", "b1"), there("e", "b1"), there("f", "a2"), member(affinity)) == {"g-0": "b1"}


def test_what_pods_prefer_that_are_there_counts_as_well() -> None:
    liking = there("d", "b1", affinity=rather_near(1, term("zone", app="web")))
    assert one(ZONES, liking, member()) == {"g-0": "b1"}
    disliking = there("d", "a1", affinity=rather_away(1, term("zone", app="web")))
    assert one(ZONES, disliking, member()) == {"g-0": "b1"}


def test_pods_that_must_be_near_it_draw_it_by_a_weight_that_can_be_set() -> None:
    tied = there("d", "b1", affinity=near(term("zone", app="web")))
    assert one(ZONES, tied, member()) == {"g-0": "b1"}
    assert one(ZONES, tied, member(), hard_weight="0") == {"g-0": "a1"}


def test_pods_placed_in_the_same_cycle_count() -> None:
    groups = [pod_group("x"), pod_group("y")]
    first = pod("x-0").cpu("1").of_group("x").label("app", "db").only_on("zone", "b").build()
    second = pod("y-0").cpu("1").of_group("y").with_spec(affinity=rather_near(1, term("zone", app="db"))).build()
    assert one(ZONES, groups, first, second)["y-0"] == "b1"


def test_preferences_outweigh_packing_but_not_what_must_be() -> None:
    affinity = away(term("zone", app="db"))
    liking = there("d", "b1", affinity=rather_near(100, term("zone", app="web")))
    assert one(ZONES, liking, member(affinity)) == {"g-0": "a1"}


def test_a_weight_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="hardPodAffinityWeight"):
        PodAffinityScore({"hardPodAffinityWeight": "-1"})
