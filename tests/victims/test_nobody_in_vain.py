"""Nobody is evicted whose eviction isn't needed: what a search has found is pruned before it is decided."""

from collections.abc import Sequence

from hypothesis import event, given

from bosket.api.core.node import Node
from bosket.api.object import KubeObject
from bosket.scheduler.configuration.configuration import Configuration
from bosket.testing.build import job, node, queue
from bosket.testing.cluster import NOW, configured, decided, evictions, pipelines
from tests.victims.cluster_strategy import CLASSES, EVERYTHING, clusters
from tests.victims.minimal import Minimality, minimality, with_protected

RECLAIM = configured("allocate", "consolidation", "reclaim", "preempt")


def gone(*objects: Node | Sequence[KubeObject], configuration: Configuration = RECLAIM) -> list[str]:
    """Pods that are evicted, sorted."""
    return sorted(evictions(decided(*objects, configuration=configuration)))


def test_a_job_that_shares_no_node_with_the_preemptor_stays() -> None:
    """Two pods that are alone on a node aren't sent to one of those that a large gang leaves."""
    decisions = decided(
        [node(f"n{i}", gpus=8) for i in range(6)],
        [queue("a", quota=0), queue("b", quota=48)],
        job("a-big", 5, gpus=8, on=[f"n{i}" for i in range(5)], queue="a"),
        job("a-mid", 2, gpus=4, on="n5", queue="a"),
        job("b-new", 2, gpus=8, queue="b"),
        configuration=RECLAIM,
    )
    assert sorted(evictions(decisions)) == [f"a-big-{i}" for i in range(5)]
    assert sorted(pipelines(decisions)) == ["b-new-0", "b-new-1"]


def test_one_pod_goes_instead_of_a_gang_of_the_same_queue() -> None:
    assert gone(
        node("n1", gpus=5),
        [queue("a", quota=2), queue("b", quota=3)],
        job("one", 1, on="n1", queue="a"),
        job("four", 4, on="n1", queue="a"),
        job("new", 1, queue="b"),
    ) == ["one-0"]


def test_a_job_of_higher_priority_does_not_go_for_the_sake_of_fewer_pods() -> None:
    assert gone(
        node("n1", gpus=3),
        [queue("a", quota=1), queue("b", quota=2)],
        CLASSES,
        job("one", 1, on="n1", queue="a", priority="high"),
        job("two", 2, on="n1", queue="a", priority="low"),
        job("new", 1, queue="b"),
    ) == ["two-0", "two-1"]


def test_an_extra_on_another_node_stays() -> None:
    """Extras go in the order of pods; the one whose node isn't used stays, though its turn comes before."""
    assert gone(
        [node("n1", gpus=2), node("n2", gpus=1)],
        [queue("a", quota=0), queue("b", quota=3)],
        job("elastic", 3, on=["n1", "n1", "n2"], min_member=1, queue="a"),
        job("new", 1, gpus=2, queue="b"),
    ) == ["elastic-0", "elastic-1"]


def test_an_eviction_tells_what_is_lost() -> None:
    decisions = decided(
        node("n1", gpus=4),
        [queue("a", quota=0), queue("b", quota=4)],
        job("old", 2, gpus=2, on="n1", queue="a", created=NOW - 8000, started=NOW - 7200),
        job("new", 1, gpus=4, queue="b"),
        configuration=RECLAIM,
    )
    text = decisions.evictions[0].text
    assert text.endswith("Run time lost: 4.00 GPU hours of the pod, 8.00 of workload default/old")


@given(clusters())
def test_protecting_any_victim_costs_as_many_evictions(objects: Sequence[KubeObject]) -> None:
    found = minimality(with_protected(objects, EVERYTHING))
    event(found.name)
    assert found is not Minimality.NEEDLESS
