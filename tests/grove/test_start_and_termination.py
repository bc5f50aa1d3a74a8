"""SO1 to SO4: cliques start in order, inside each gang. GT1 to GT6: what stays below its minimum is made anew."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import AutoScalingConfig, PodClique, PodCliqueSet
from bosket.api.grove.naming import BASE_GANG_LABEL
from bosket.api.time import parse_time
from tests.grove.sets import workload, workload1, workload2
from tests.grove.world import World, Worlds

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


ONE_GANG = {
    "SO1": (workload1(order=IN_ORDER), ("pc-a", "pc-b", "pc-c")),
    "SO3": (workload1(order=EXPLICIT, after={"pc-c": ["pc-a"], "pc-b": ["pc-c"]}), ("pc-a", "pc-c", "pc-b")),
}


@pytest.mark.parametrize("case", ONE_GANG)
async def test_in_one_gang_all_of_a_clique_start_after_all_before_it(case: str, world: Worlds) -> None:
    """SO1 and SO3."""
    owner, order = ONE_GANG[case]
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


SCALED_GANGS = {
    "SO2": workload2(order=IN_ORDER),
    "SO4": workload2(order=EXPLICIT, after={"pc-b": ["pc-a"], "pc-c": ["pc-b"]}),
}


@pytest.mark.parametrize("case", SCALED_GANGS)
async def test_each_replica_of_a_group_keeps_its_own_order(case: str, world: Worlds) -> None:
    """SO2 and SO4."""
    async with world(10) as grove:
        await grove.apply(SCALED_GANGS[case])
        await grove.expect(10, 10)
        await _assert_first_before_last(grove, ["workload2-0-pc-a"], ["workload2-0-sg-x-0-pc-b"], 1)
        for replica in (0, 1):
            group = f"workload2-0-sg-x-{replica}"
            await _assert_first_before_last(grove, [f"{group}-pc-b"], [f"{group}-pc-c"], 1)


async def _established(grove: World, owner: PodCliqueSet) -> None:
    """The set runs; however new it is, it is missed from then on."""
    delay = f"{grove.termination_delay_seconds}s"
    template = replace(owner.spec.template, terminationDelay=delay)
    await grove.apply(replace(owner, spec=replace(owner.spec, template=template)))
    await grove.expect(10, 10)


async def _kill(grove: World, clique: str, count: int) -> None:
    running = [each for each in await grove.pods(clique) if each.status.phase == "Running"]
    for pod in running[:count]:
        await grove.kill(pod)


async def _lives(grove: World, *cliques: str) -> set[str]:
    """Of these PodCliques, or of all: the uids of their pods and their own.

    Pods alone say little: the scheduler, too, takes them from a gang that has been below its minimum for long enough.
    """
    found = (await grove.client.list(PodClique, grove.namespace)).items
    own = {each.metadata.uid for each in found if not cliques or each.metadata.name in cliques}
    return own.union(*[await grove.uids(each) for each in cliques or ("",)])


async def _none_is_left(grove: World, former: set[str]) -> None:
    async def all_are_others() -> bool:
        return not former & await _lives(grove)

    await grove.until("other PodCliques with other pods", all_are_others)


VICTIMS = {"GT1": "workload1-0-pc-a", "GT2": "workload1-0-sg-x-0-pc-c"}


@pytest.mark.parametrize("case", VICTIMS)
async def test_a_gang_that_lost_a_pod_of_its_minimum_is_made_anew_as_a_whole(case: str, world: Worlds) -> None:
    """GT1 and GT2."""
    async with world(10) as grove:
        await _established(grove, workload1())
        before = await _lives(grove)
        await _kill(grove, VICTIMS[case], 1)
        await _none_is_left(grove, before)
        await grove.free(1)
        await grove.expect(10, 10)


async def test_a_clique_is_missed_only_when_it_is_below_its_minimum(world: Worlds) -> None:
    """GT3."""
    async with world(10) as grove:
        await _established(grove, workload2())
        before, lives = await grove.uids(), await _lives(grove)
        await _kill(grove, "workload2-0-pc-a", 1)
        await grove.settle(grove.termination_delay_seconds)
        assert len(before & await grove.uids()) == 9
        await _kill(grove, "workload2-0-pc-a", 1)
        await _none_is_left(grove, lives)
        await grove.free(2)
        await grove.expect(10, 10)


async def test_a_replica_of_a_group_is_made_anew_alone_while_enough_others_are_left(world: Worlds) -> None:
    """GT4."""
    async with world(10) as grove:
        await _established(grove, workload2())
        first = await grove.uids("workload2-0-sg-x-0-pc-b")
        replica = await _lives(grove, "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c")
        all_else = await _lives(grove) - replica
        standalone = await grove.uids("workload2-0-pc-a")
        await _kill(grove, "workload2-0-sg-x-0-pc-c", 1)
        await grove.settle(grove.termination_delay_seconds)
        assert first == await grove.uids("workload2-0-sg-x-0-pc-b")
        await _kill(grove, "workload2-0-sg-x-0-pc-c", 2)
        await _none_is_left(grove, replica)
        await grove.settle()
        assert all_else <= await _lives(grove)
        await _kill(grove, "workload2-0-sg-x-1-pc-c", 1)
        await grove.settle(grove.termination_delay_seconds)
        assert standalone == await grove.uids("workload2-0-pc-a")
        assert len(await grove.running()) >= 5
        await _kill(grove, "workload2-0-sg-x-1-pc-c", 2)
        await _none_is_left(grove, all_else)
        await grove.free(6)
        await grove.expect(10, 10)


async def test_a_replica_that_lost_all_pods_of_a_clique_is_made_anew(world: Worlds) -> None:
    """GT5."""
    async with world(10) as grove:
        await _established(grove, workload("workload5", minima=(1, 1, 3), group_minimum=1))
        replica = await _lives(grove, "workload5-0-sg-x-0-pc-b", "workload5-0-sg-x-0-pc-c")
        all_else = await _lives(grove) - replica
        await _kill(grove, "workload5-0-sg-x-0-pc-c", 3)
        await _none_is_left(grove, replica)
        await grove.settle()
        assert all_else <= await _lives(grove)
        await grove.free(3)
        await grove.expect(10, 10)


async def test_a_pod_of_a_scaled_gang_is_replaced_and_the_base_gang_does_not_notice(world: Worlds) -> None:
    """GT6."""
    async with world(10) as grove:
        await _established(grove, workload2())
        base = await grove.uids("workload2-0-pc-a")
        scaled = [
            each for each in await grove.pods("workload2-0-sg-x-1-pc-c") if BASE_GANG_LABEL in each.metadata.labels
        ]
        await grove.kill(scaled[0])
        await grove.settle(grove.termination_delay_seconds)
        assert base == await grove.uids("workload2-0-pc-a")
        assert len(await grove.running()) == 9
        await grove.free(1)
        await grove.expect(10, 10)


async def test_deleting_a_set_leaves_nothing_behind(world: Worlds) -> None:
    """The cascade of a deletion."""
    async with world(10) as grove:
        owner = workload1()
        first, *others = owner.spec.template.cliques
        scaling = AutoScalingConfig(minReplicas=2, maxReplicas=2)
        first = replace(first, spec=replace(first.spec, autoScalingConfig=scaling))
        template = replace(owner.spec.template, cliques=(first, *others))
        await grove.apply(replace(owner, spec=replace(owner.spec, template=template)))
        await grove.expect(10, 10)
        kinds = (
            *("grove.io/v1alpha1/podcliquesets", "grove.io/v1alpha1/podcliques"),
            *("grove.io/v1alpha1/podcliquescalinggroups", "scheduler.grove.io/v1alpha1/podgangs"),
            *("v1/pods", "v1/services", "v1/serviceaccounts", "v1/secrets", "scheduling.run.ai/v2alpha2/podgroups"),
            *("rbac.authorization.k8s.io/v1/roles", "rbac.authorization.k8s.io/v1/rolebindings"),
            "autoscaling/v2/horizontalpodautoscalers",
        )
        assert all([await _count(grove, each) for each in kinds])
        await grove.client.delete(PodCliqueSet, "workload1", grove.namespace)

        async def nothing_is_left() -> bool:
            return not any([await _count(grove, each) for each in kinds])

        await grove.stays("nothing left", nothing_is_left)


async def _count(grove: World, kind: str) -> int:
    """Objects of the namespace but its own service account."""
    *version, plural = kind.split("/")
    prefix = f"/apis/{'/'.join(version)}" if len(version) > 1 else f"/api/{version[0]}"
    answer = await grove.client.raw("GET", f"{prefix}/namespaces/{grove.namespace}/{plural}")
    items = msgspec.json.decode(answer.body)["items"]
    return sum(each["metadata"]["name"] != "default" for each in items)
