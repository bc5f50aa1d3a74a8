"""OD1 to OD9: with OnDelete, a new template reaches a pod when somebody deletes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bosket.api.grove import PodClique
from tests.grove.sets import workload
from tests.grove.world import World, Worlds

pytestmark = pytest.mark.looptime

NAME = "workload-ondelete"
NEW = "app:2"


@asynccontextmanager
async def on_delete(world: Worlds, nodes: int = 10, replicas: int = 1) -> AsyncIterator[World]:
    owner = workload(NAME, minima=(1, 1, 3), group_minimum=2, on_delete=True, replicas=replicas)
    async with world(nodes) as grove:
        await grove.apply(owner)
        await grove.expect(10 * replicas, 10 * replicas)
        yield grove


async def _images(grove: World, clique: str) -> list[str]:
    return sorted(each.spec.containers[0].image for each in await grove.pods(f"{NAME}-{clique}"))


async def _delete_one(grove: World, clique: str) -> None:
    await grove.delete_pod((await grove.pods(f"{NAME}-{clique}"))[0])
    await grove.expect(10, 10)


async def test_nothing_is_deleted_and_the_update_counts_as_ended(world: Worlds) -> None:
    """OD1."""
    async with on_delete(world) as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-a", image=NEW)

        async def has_ended() -> bool:
            progress = (await grove.clique_set(NAME)).status.updateProgress
            return progress is not None and progress.updateEndedAt is not None

        await grove.stays("the end of the update", has_ended)
        assert before == await grove.uids()


async def test_a_deleted_pod_comes_back_new_and_old_ones_are_scaled_away_first(world: Worlds) -> None:
    """OD2 and OD3."""
    async with on_delete(world) as grove:
        await grove.change_image(NAME, "pc-a", image=NEW)
        await grove.settle()
        await _delete_one(grove, "0-pc-a")
        assert await _images(grove, "0-pc-a") == ["app:1", NEW]

        async def one_is_updated() -> bool:
            return (await grove.clique(f"{NAME}-0-pc-a")).status.updatedReplicas == 1

        await grove.until("one updated pod", one_is_updated)
        await grove.scale(PodClique, f"{NAME}-0-pc-a", 1)
        await grove.expect(9, 9)
        assert await _images(grove, "0-pc-a") == [NEW]


async def test_members_of_groups_are_changed_in_place_too(world: Worlds) -> None:
    """OD4, OD5 and OD6."""
    async with on_delete(world) as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-a", "pc-b", "pc-c", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
        await _delete_one(grove, "0-sg-x-0-pc-c")
        assert await _images(grove, "0-sg-x-0-pc-c") == ["app:1", "app:1", NEW]
        await _delete_one(grove, "0-pc-a")
        assert await _images(grove, "0-pc-a") == ["app:1", NEW]
        assert await _images(grove, "0-sg-x-0-pc-b") == ["app:1"]


async def test_all_replicas_of_a_set_are_alike(world: Worlds) -> None:
    """OD7."""
    async with on_delete(world, 20, replicas=2) as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-b", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
        for replica in (0, 1):
            clique = await grove.clique(f"{NAME}-{replica}-sg-x-0-pc-b")
            assert clique.spec.podSpec.containers[0].image == NEW


async def test_a_pod_comes_back_elsewhere_when_the_new_template_avoids_its_node(world: Worlds) -> None:
    """OD8."""
    async with on_delete(world, 11) as grove:
        victim = (await grove.pods(f"{NAME}-0-pc-a"))[0]
        node = victim.spec.nodeName
        expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        path = "/spec/template/cliques/0/spec/podSpec/affinity"
        await grove.patch_set(NAME, {"op": "add", "path": path, "value": affinity})
        await grove.settle()
        others = await grove.uids() - {victim.metadata.uid}
        await grove.delete_pod(victim)
        await grove.expect(10, 10)
        assert others <= await grove.uids()
        assert node not in {each.spec.nodeName for each in await grove.pods(f"{NAME}-0-pc-a")}


async def test_the_strategy_may_be_switched_at_any_time(world: Worlds) -> None:
    """OD9."""
    async with on_delete(world) as grove:
        strategy = "/spec/updateStrategy/type"
        await grove.patch_set(NAME, {"op": "replace", "path": strategy, "value": "RollingRecreate"})
        await grove.change_image(NAME, "pc-b", image=NEW)

        async def rolled() -> bool:
            return [*await _images(grove, "0-sg-x-0-pc-b"), *await _images(grove, "0-sg-x-1-pc-b")] == [NEW, NEW]

        await grove.until("new pods", rolled)
        await grove.expect(10, 10)
        await grove.patch_set(NAME, {"op": "replace", "path": strategy, "value": "OnDelete"})
        before = await grove.uids()
        await grove.change_image(NAME, "pc-c", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
