"""Before each step the side that loses must still hold more than it may; the last step may take it below."""

from collections.abc import Sequence

import pytest

from bosket.api.kai import QueueResource
from bosket.testing.build import job, node, pod, pod_group, queue
from bosket.testing.cluster import configured, decided, evictions

RECLAIM = configured("allocate", "reclaim")


def victims(*holding: int, quota: int, wanted: int) -> list[str]:
    """Who goes when a gang of `wanted` one-GPU pods asks. `holding`: the sizes of gangs, the oldest first."""
    decisions = decided(
        node("n1", gpus=sum(holding)),
        [queue("mine", quota=8), queue("theirs", quota=quota, weight=0)],
        [each for i, size in enumerate(holding) for each in job(f"y{i}", size, on="n1", queue="theirs")],
        job("new", wanted, queue="mine"),
        configuration=RECLAIM,
    )
    return sorted({name.rsplit("-", 1)[0] for name in evictions(decisions)})


@pytest.mark.parametrize(
    ("holding", "quota", "wanted", "expected"),
    [
        pytest.param((1, 1, 1), 2, 1, ["y2"], id="one beyond the quota goes"),
        pytest.param((1, 1), 2, 1, [], id="a queue at its quota loses nothing"),
        pytest.param((1, 1, 1), 2, 2, [], id="the second step would begin at the quota"),
        pytest.param((4,), 2, 1, ["y0"], id="a gang that reaches below the quota goes as a whole"),
        pytest.param((1, 4), 2, 1, ["y0"], id="one pod goes instead of a gang"),
        pytest.param((2, 1), 2, 3, [], id="a gang isn't taken once the queue is at its quota"),
        pytest.param((2, 2), 1, 4, ["y0", "y1"], id="two gangs, the queue being beyond its quota before each"),
    ],
)
def test_a_queue_loses_only_while_it_holds_more_than_its_quota(
    holding: tuple[int, ...], quota: int, wanted: int, expected: Sequence[str]
) -> None:
    assert victims(*holding, quota=quota, wanted=wanted) == expected


def test_beyond_its_quota_a_reclaimer_takes_only_from_those_beyond_their_share() -> None:
    """Both have quota 2 and as much weight: of 8 GPUs each may have 4."""

    def lost(theirs: int) -> int:
        decisions = decided(
            node("n1", gpus=2 + theirs),
            [queue("mine", quota=2), queue("theirs", quota=2)],
            job("x", 2, on="n1", queue="mine", preemptibility="non-preemptible"),
            [each for i in range(theirs) for each in job(f"y{i}", on="n1", queue="theirs")],
            [each for i in range(8) for each in job(f"new{i}", queue="mine")],
            configuration=RECLAIM,
        )
        return len(evictions(decisions))

    assert lost(theirs=6) == 2
    assert lost(theirs=2) == 0


def test_extras_of_an_elastic_job_are_steps_of_their_own() -> None:
    """The job of 4 with a minimum of 2 gives one extra, and the queue is at its quota of 3."""
    decisions = decided(
        node("n1", gpus=4),
        [queue("mine", quota=8), queue("theirs", quota=3, weight=0)],
        job("y", 4, min_member=2, on="n1", queue="theirs"),
        [each for i in range(2) for each in job(f"new{i}", queue="mine")],
        configuration=RECLAIM,
    )
    assert evictions(decisions) == {"y-3": "new0"}


def test_extras_are_steps_of_their_own_but_what_goes_first_counts_as_the_gang() -> None:
    """As in KAI: of the tasks that go, as many as the minimum are one step, though they are extras."""

    def lost(min_member: int) -> int:
        decisions = decided(
            node("n1", gpus=4),
            [queue("mine", quota=8), queue("theirs", quota=3, weight=0)],
            job("y", 4, min_member=min_member, on="n1", queue="theirs"),
            job("new", 2, queue="mine"),
            configuration=RECLAIM,
        )
        return len(evictions(decisions))

    assert lost(min_member=1) == 0, "two steps, the second of which would begin at the quota"
    assert lost(min_member=2) == 2, "one step"


def test_within_its_quota_a_reclaimer_takes_from_those_beyond_their_quota_of_anything() -> None:
    """Of GPUs `theirs` holds its quota; of CPU it holds more than that, though no more than its share."""

    def lost(millicores: int) -> int:
        cpu = QueueResource(quota=millicores, limit=-1, overQuotaWeight=1)
        decisions = decided(
            node("n1", gpus=2),
            [queue("mine", quota=1), queue("theirs", quota=2, weight=0, cpu=cpu)],
            pod_group("y", queue="theirs", min_member=0),
            [pod(f"y-{i}").gpu(1).cpu("1").of_group("y").running_on("n1").build() for i in range(2)],
            job("new", queue="mine"),
            configuration=RECLAIM,
        )
        return len(evictions(decisions))

    assert lost(millicores=2000) == 0
    assert lost(millicores=1000) == 1
