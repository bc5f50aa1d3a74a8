"""SO1 to SO4: cliques start in order, inside each gang. GT1 to GT6: what stays below its minimum is made anew."""

from __future__ import annotations

import msgspec
import pytest

from bosket.api.core import Pod
from bosket.api.grove import PodCliqueSet
from bosket.api.grove.naming import BASE_GANG_LABEL
from bosket.api.time import parse_time
from tests.grove.sets import workload, workload1, workload2
from tests.grove.world import World, world

pytestmark = pytest.mark.looptime

IN_ORDER = "CliqueStartupTypeInOrder"
EXPLICIT = "CliqueStartupTypeExplicit"


def _ready_at(pod: Pod) -> float:
    (condition,) = (each for each in pod.status.conditions if each.type == "Ready")
    assert condition.lastTransitionTime is not None
    return parse_time(condition.lastTransitionTime)


async def _ready_times(grove: World, *cliques: str) -> list[float]:
    return sorted([_ready_at(each) for name in cliques for each in await grove.pods(name)])


async def _assert_first_before_last(grove: World, earlier: list[str], later: list[str], minimum: int) -> None:
    """As many of the earlier as have to be were ready before any of the later."""
    before, after = await _ready_times(grove, *earlier), await _ready_times(grove, *later)
    assert before[minimum - 1] < after[0]


@pytest.mark.parametrize(
    ("case", "owner", "order"),
    [
        ("SO1", workload1(order=IN_ORDER), ("pc-a", "pc-b", "pc-c")),
        ("SO3", workload1(order=EXPLICIT, after={"pc-c": ["pc-a"], "pc-b": ["pc-c"]}), ("pc-a", "pc-c", "pc-b")),
    ],
)
async def test_in_one_gang_all_of_a_clique_start_after_all_before_it(
    case: str, owner: PodCliqueSet, order: tuple[str, ...]
) -> None:
    del case
    async with world(10) as grove:
        await grove.apply(owner)
        await grove.expect(10, 10)
        names = {
            "pc-a": ["workload1-0-pc-a"],
            "pc-b": ["workload1-0-sg-x-0-pc-b", "workload1-0-sg-x-1-pc-b"],
            "pc-c": ["workload1-0-sg-x-0-pc-c", "workload1-0-sg-x-1-pc-c"],
        }
        times = [await _ready_times(grove, *names[each]) for each in order]
        assert times[0][-1] < times[1][0]
        assert times[1][-1] < times[2][0]


@pytest.mark.parametrize(
    ("case", "owner"),
    [
        ("SO2", workload2(order=IN_ORDER)),
        ("SO4", workload2(order=EXPLICIT, after={"pc-b": ["pc-a"], "pc-c": ["pc-b"]})),
    ],
)
async def test_each_replica_of_a_group_keeps_its_own_order(case: str, owner: PodCliqueSet) -> None:
    del case
    async with world(10) as grove:
        await grove.apply(owner)
        await grove.expect(10, 10)
        await _assert_first_before_last(grove, ["workload2-0-pc-a"], ["workload2-0-sg-x-0-pc-b"], 1)
        for replica in (0, 1):
            group = f"workload2-0-sg-x-{replica}"
            await _assert_first_before_last(grove, [f"{group}-pc-b"], [f"{group}-pc-c"], 1)


DELAY = {"delay": "10s"}


@pytest.mark.parametrize(("case", "clique"), [("GT1", "workload1-0-pc-a"), ("GT2", "workload1-0-sg-x-0-pc-c")])
async def test_a_gang_that_lost_a_pod_of_its_minimum_is_made_anew_as_a_whole(case: str, clique: str) -> None:
    del case
    async with world(10) as grove:
        await grove.apply(workload1(**DELAY))
        await grove.expect(10, 10)
        before = await grove.uids()
        await grove.kill((await grove.pods(clique))[0])
        await grove.settle(25)
        assert not before & await grove.uids()
        await grove.free(1)
        await grove.expect(10, 10)


async def test_gt3_a_clique_is_missed_only_when_it_is_below_its_minimum() -> None:
    async with world(10) as grove:
        await grove.apply(workload2(**DELAY))
        await grove.expect(10, 10)
        before = await grove.uids()
        one, other = await grove.pods("workload2-0-pc-a")
        await grove.kill(one)
        await grove.settle(25)
        assert len(before & await grove.uids()) == 9
        await grove.kill(other)
        await grove.settle(25)
        assert not before & await grove.uids()
        await grove.free(2)
        await grove.expect(10, 10)


async def _kill(grove: World, clique: str, count: int) -> None:
    running = [each for each in await grove.pods(clique) if each.status.phase == "Running"]
    for pod in running[:count]:
        await grove.kill(pod)
    await grove.settle(25)


async def test_gt4_a_replica_of_a_group_is_made_anew_alone_while_enough_others_are_left() -> None:
    async with world(10) as grove:
        await grove.apply(workload2(**DELAY))
        await grove.expect(10, 10)
        first = {each: await grove.uids(f"workload2-0-sg-x-0-{each}") for each in ("pc-b", "pc-c")}
        others = await grove.uids("workload2-0-pc-a") | await grove.uids("workload2-0-sg-x-1-pc-c")
        await _kill(grove, "workload2-0-sg-x-0-pc-c", 1)
        assert first["pc-b"] == await grove.uids("workload2-0-sg-x-0-pc-b")
        await _kill(grove, "workload2-0-sg-x-0-pc-c", 2)
        assert not first["pc-b"] & await grove.uids("workload2-0-sg-x-0-pc-b")
        assert others <= await grove.uids()
        await _kill(grove, "workload2-0-sg-x-1-pc-c", 1)
        assert await grove.uids("workload2-0-pc-a") <= others
        await _kill(grove, "workload2-0-sg-x-1-pc-c", 2)
        assert not others & await grove.uids()
        await grove.free(6)
        await grove.expect(10, 10)


async def test_gt5_a_replica_that_lost_all_pods_of_a_clique_is_made_anew() -> None:
    owner = workload("workload5", minima=(1, 1, 3), group_minimum=1, **DELAY)
    async with world(10) as grove:
        await grove.apply(owner)
        await grove.expect(10, 10)
        first = await grove.uids("workload5-0-sg-x-0-pc-b")
        others = await grove.uids("workload5-0-pc-a") | await grove.uids("workload5-0-sg-x-1-pc-c")
        await _kill(grove, "workload5-0-sg-x-0-pc-c", 3)
        assert not first & await grove.uids("workload5-0-sg-x-0-pc-b")
        assert others <= await grove.uids()
        await grove.free(3)
        await grove.expect(10, 10)


async def test_gt6_a_pod_of_a_scaled_gang_is_replaced_and_the_base_gang_does_not_notice() -> None:
    async with world(10) as grove:
        await grove.apply(workload2(**DELAY))
        await grove.expect(10, 10)
        base = await grove.uids("workload2-0-pc-a")
        scaled = [
            each for each in await grove.pods("workload2-0-sg-x-1-pc-c") if BASE_GANG_LABEL in each.metadata.labels
        ]
        await grove.kill(scaled[0])
        await grove.settle(25)
        assert base == await grove.uids("workload2-0-pc-a")
        assert len(await grove.running()) == 9
        await grove.free(1)
        await grove.expect(10, 10)


async def test_deleting_a_set_leaves_nothing_behind() -> None:
    async with world(10) as grove:
        await grove.apply(workload1())
        await grove.expect(10, 10)
        await grove.client.delete(PodCliqueSet, "workload1", "ml")
        await grove.settle()
        kinds = (
            *("grove.io/v1alpha1/podcliquesets", "grove.io/v1alpha1/podcliques"),
            *("grove.io/v1alpha1/podcliquescalinggroups", "scheduler.grove.io/v1alpha1/podgangs"),
            *("v1/pods", "v1/services", "v1/serviceaccounts", "v1/secrets", "scheduling.run.ai/v2alpha2/podgroups"),
            *("rbac.authorization.k8s.io/v1/roles", "rbac.authorization.k8s.io/v1/rolebindings"),
            "autoscaling/v2/horizontalpodautoscalers",
        )
        left = {each: await _count(grove, each) for each in kinds}
        assert left == dict.fromkeys(kinds, 0)


async def _count(grove: World, kind: str) -> int:
    """Objects of the namespace but its own service account."""
    *version, plural = kind.split("/")
    prefix = f"/apis/{'/'.join(version)}" if len(version) > 1 else f"/api/{version[0]}"
    answer = await grove.client.raw("GET", f"{prefix}/namespaces/ml/{plural}")
    items = msgspec.json.decode(answer.body)["items"]
    return sum(each["metadata"]["name"] != "default" for each in items)
