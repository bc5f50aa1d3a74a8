"""Grove's scale and soak suites, smaller: a set of many replicas of two pods grows, shrinks, and leaves nothing behind.

What it costs is counted in writes, which in virtual time are exact; `python -m benchmarks grove` has the full size.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueTemplateSpec, PodGang
from bosket.api.grove.naming import RECONCILE_TRIGGER_ANNOTATION
from bosket.api.kai import PodGroup
from bosket.api.object import KubeObject
from bosket.testing.faults import FaultyTransport, matching, refuse
from tests.grove.operator_process import operator
from tests.grove.sets import NAMESPACE, QUEUE, clique, clique_set, group
from tests.grove.world import EmbeddedWorld, world
from tests.grove.writes import count_writes

pytestmark = pytest.mark.looptime

NAME = "scale"
_NODES = 2  # with room for hundreds of pods each


def worker(replicas: int, minimum: int | None = None, name: str = "worker") -> PodCliqueTemplateSpec:
    labels = {"kai.scheduler/queue": QUEUE}
    return clique(name, replicas, minimum, scheduler="kai-scheduler", labels=labels)


def pairs(replicas: int) -> PodCliqueSet:
    """As many replicas, each a clique of two pods."""
    return clique_set(NAME, worker(2), replicas=replicas)


async def expect_replicas(grove: EmbeddedWorld, replicas: int) -> None:
    """All there is belongs to the replicas, nothing is on its way out, and the status says so."""
    await grove.expect(2 * replicas, 2 * replicas)
    cliques = (await grove.client.list(PodClique, NAMESPACE)).items
    gangs = (await grove.client.list(PodGang, NAMESPACE)).items
    assert {each.metadata.name for each in cliques} == {f"{NAME}-{index}-worker" for index in range(replicas)}
    assert {each.metadata.name for each in gangs} == {f"{NAME}-{index}" for index in range(replicas)}
    assert len((await grove.client.list(PodGroup, NAMESPACE)).items) == replicas
    assert not [each.key for each in (*cliques, *gangs) if each.metadata.deletionTimestamp]
    status = (await grove.clique_set(NAME)).status
    assert (status.replicas, status.availableReplicas, status.updatedReplicas) == (replicas, replicas, replicas)
    assert len(status.podGangStatuses) == replicas


async def spent(grove: EmbeddedWorld, before: Counter[str]) -> dict[str, int]:
    """What was written since then."""
    return dict(await count_writes(grove.client) - before)


async def test_a_set_of_many_replicas_costs_each_pod_the_same_few_writes() -> None:
    async with world(_NODES) as grove:
        before = await count_writes(grove.client)
        await grove.apply(pairs(20))
        await expect_replicas(grove, 20)
        writes = await spent(grove, before)
        assert not [each for each in writes if each.endswith((" 409", " 422"))], (
            "nobody writes what another has written"
        )
        once_per_replica = ("POST podcliques", "POST podgangs", "POST podgroups", "PATCH podgangs")
        assert {each: writes[each] for each in once_per_replica} == dict.fromkeys(once_per_replica, 20)
        assert writes["POST pods"] == 40
        assert writes["PATCH pods"] <= 60, "each loses its gates in one write, or two where the backend was late"
        assert writes["PATCH podcliques/status"] <= 40, "made, then ready"
        assert writes["PATCH podgangs/status"] <= 80, "initialized; waiting, scheduled, running"
        assert writes["PATCH podcliquesets/status"] <= 6


@pytest.mark.parametrize("pods", [10, 80])
async def test_a_large_clique_is_told_of_as_rarely_as_a_small_one(pods: int) -> None:
    async with world(_NODES) as grove:
        before = await count_writes(grove.client)
        await grove.apply(clique_set(NAME, worker(pods, 1)))
        await grove.expect(pods, pods)
        writes = await spent(grove, before)
        assert writes["PATCH podgangs"] <= 2, "pods are referred to together"
        assert writes["PATCH podcliques/status"] <= 4
        assert writes["PATCH podgangs/status"] <= 5
        assert writes["POST pods"] == pods


async def test_a_look_at_a_set_that_is_as_it_should_be_writes_nothing() -> None:
    async with world(_NODES) as grove:
        await grove.apply(clique_set(NAME, worker(2), worker(1, name="b"), groups=[group("g", "b")], replicas=5))
        await grove.expect(15, 15)
        before = await count_writes(grove.client)
        patch = {"metadata": {"annotations": {RECONCILE_TRIGGER_ANNOTATION: "again"}}}
        await grove.client.patch(PodCliqueSet, NAME, patch, namespace=NAMESPACE)
        await grove.settle()
        assert await spent(grove, before) == {"PATCH podcliquesets": 1}


async def test_who_waits_for_the_base_gang_writes_nothing_meanwhile() -> None:
    async with world(_NODES, cordoned=_NODES) as grove:
        owner = clique_set(NAME, worker(1, name="b"), groups=[group("g", "b", replicas=10)])
        await grove.apply(owner)
        await grove.expect(10, 0)
        before = await count_writes(grove.client)
        await grove.settle(300)
        assert await spent(grove, before) == {}
        await grove.free(_NODES)
        await grove.expect(10, 10)


async def test_pods_that_are_refused_are_asked_for_one_at_a_time() -> None:
    """A quota that is used up isn't run against by hundreds of requests."""
    async with world(_NODES, services=("grove-admission", "grove-backends")) as grove:
        transport = FaultyTransport(grove.cluster.server.transport())
        refusal = transport.add(refuse(matching("POST", "/pods"), 403, reason="Forbidden", times=None))
        async with operator(grove.cluster, transport):
            await grove.apply(clique_set(NAME, worker(50)))
            await grove.settle()
            assert 1 <= refusal.struck <= 20, "one for each attempt, and these come ever more slowly"


@pytest.mark.parametrize("sizes", [(0, 20), (10, 20), (20, 10), (20, 0)], ids=str)
async def test_a_set_is_scaled(sizes: tuple[int, int]) -> None:
    before, after = sizes
    async with world(_NODES) as grove:
        await grove.apply(pairs(before))
        await expect_replicas(grove, before)
        kept = await grove.uids()
        await grove.scale(PodCliqueSet, NAME, after)
        await expect_replicas(grove, after)
        assert kept <= await grove.uids() or after < before, "those that were there stay"
        assert len(kept & await grove.uids()) == 2 * min(before, after)
        await grove.client.delete(PodCliqueSet, NAME, NAMESPACE)
        await grove.expect(0, 0)
        kinds: tuple[type[KubeObject], ...] = (PodCliqueSet, PodClique, PodGang, PodGroup)
        for kind in kinds:
            assert not (await grove.client.list(kind, NAMESPACE)).items


async def test_nothing_grows_while_a_set_goes_up_and_down() -> None:
    """Base, peak, base … : statuses are as long as at first, and each round costs the same."""
    async with world(_NODES) as grove:
        owner = clique_set(NAME, worker(2), worker(1, name="b"), groups=[group("g", "b", replicas=2)], replicas=3)
        await grove.apply(owner)
        await grove.expect(12, 12)
        lengths, costs = [], []
        for _ in range(3):
            before = await count_writes(grove.client)
            await grove.scale(PodCliqueSet, NAME, 6)
            await grove.scale(PodCliqueScalingGroup, f"{NAME}-0-g", 4)
            await grove.expect(26, 26)
            await grove.scale(PodCliqueScalingGroup, f"{NAME}-0-g", 2)
            await grove.scale(PodCliqueSet, NAME, 3)
            await grove.expect(12, 12)
            lengths.append(await _status_lengths(grove))
            costs.append(sum((await spent(grove, before)).values()))
        assert lengths[1:] == lengths[:-1]
        assert max(costs) <= min(costs) * 1.1


async def _status_lengths(grove: EmbeddedWorld) -> dict[str, int]:
    kinds: tuple[type[KubeObject], ...] = (PodCliqueSet, PodClique, PodCliqueScalingGroup, PodGang)
    found = [each for kind in kinds for each in (await grove.client.list(kind, NAMESPACE)).items]
    return {f"{type(each).__name__} {each.metadata.name}": len(msgspec.json.encode(each.status)) for each in found}  # type: ignore[attr-defined]
