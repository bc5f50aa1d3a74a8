"""Whatever the cluster looks like: nodes within capacity, gangs whole, queues within bounds, a reason for who waits."""

import pytest
from hypothesis import example, given, settings

from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.testing.cluster import snapshot_of
from tests.scheduler import rules
from tests.scheduler.random_cluster import RandomCluster, clusters

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("actions", [("allocate",), tuple(ACTIONS)], ids=["allocate", "all actions"])
@given(cluster=clusters())
# A pod moves from a device of unknown size, of which its memory is many, to a large one.
@example(cluster=RandomCluster(seed=1396, nodes=4, queues=2, jobs=2, releasing=True, sharing=True, close=True))
@settings(max_examples=300)
def test_every_rule_holds_in_every_cluster(actions: tuple[str, ...], cluster: RandomCluster) -> None:
    snapshot = snapshot_of(cluster.objects())
    decisions = decide(snapshot, Configuration(actions=actions))
    assert [text for rule in rules.ALL for text in rule(snapshot, decisions)] == []
