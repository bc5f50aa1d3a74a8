"""A victim that finds another place is moved; it loses nothing, and that is what counts for fairness."""

from bosket.api.object import KubeObject
from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import configured, decided, evictions, pipelines


def cluster(quota: int) -> list[list[KubeObject]]:
    """`a` holds 2 GPUs, spread over both nodes; `b` wants a whole node, and there is room to move together."""
    return [
        [node("n1", gpus=2), node("n2", gpus=2)],
        [queue("a", quota=quota, weight=0), queue("b", quota=2)],
        job("a1", on="n1", queue="a"),
        job("a2", on="n2", queue="a"),
        job("b", gpus=2, queue="b"),
    ]


def test_a_job_may_be_moved_out_of_the_way_though_its_queue_is_at_its_quota() -> None:
    decisions = decided(*cluster(quota=2), configuration=configured("allocate", "reclaim"))
    assert evictions(decisions) == {"a2-0": "b"}
    assert pipelines(decisions) == {"b-0": "n2", "a2-0": "n1"}


def test_a_moved_victim_counts_as_reclaimed_when_it_is_configured_so() -> None:
    strict = configured("allocate", "reclaim", allow_consolidating_reclaim=False)
    assert evictions(decided(*cluster(quota=2), configuration=strict)) == {}
    assert evictions(decided(*cluster(quota=1), configuration=strict)) == {"a2-0": "b"}


def test_jobs_of_a_queue_below_its_quota_are_not_even_moved() -> None:
    assert evictions(decided(*cluster(quota=3), configuration=configured("allocate", "reclaim"))) == {}


def test_a_victim_that_fits_where_it_was_is_spared() -> None:
    """The younger job comes first and isn't enough; with the older one gone there is room for it again."""
    decisions = decided(
        node("n1", gpus=3),
        [queue("a", quota=0, weight=0), queue("b", quota=2)],
        job("old", gpus=2, on="n1", queue="a"),
        job("young", gpus=1, on="n1", queue="a"),
        job("b", gpus=2, queue="b"),
        configuration=configured("allocate", "reclaim"),
    )
    assert evictions(decisions) == {"old-0": "b"}
    assert pipelines(decisions) == {"b-0": "n1"}


def test_a_pod_that_waits_may_take_the_place_of_one_of_its_own_job() -> None:
    """The leader of a job (by its label) waits, a worker runs: evicted and placed again, the leader goes first."""
    worker = pod("a-worker").gpu(2).of_group("a").running_on("n1").build()
    leader = pod("a-z").gpu(1).of_group("a").label("kai.scheduler/task-priority", "1").build()
    decisions = decided(
        node("n1", gpus=2),
        [queue("a", quota=1, weight=0), queue("b", quota=1)],
        pod_group("a", queue="a", min_member=0),
        [worker, leader],
        job("b", queue="b"),
        configuration=configured("allocate", "reclaim"),
    )
    assert evictions(decisions) == {"a-worker": "b"}
    assert pipelines(decisions) == {"b-0": "n1", "a-z": "n1"}
