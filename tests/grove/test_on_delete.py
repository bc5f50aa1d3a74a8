"""OD1 to OD9: with OnDelete, a new template reaches a pod when somebody deletes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bosket.api.grove import PodClique, PodCliqueSet
from tests.grove.sets import workload
from tests.grove.world import World, world

pytestmark = pytest.mark.looptime

NAME = "workload-ondelete"
NEW = "app:2"


@asynccontextmanager
async def on_delete(nodes: int = 10, replicas: int = 1) -> AsyncIterator[World]:
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


async def test_od1_nothing_is_deleted_and_the_update_counts_as_ended() -> None:
    async with on_delete() as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-a", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
        progress = (await grove.set(NAME)).status.updateProgress
        assert progress is not None
        assert progress.updateEndedAt is not None


async def test_od2_and_od3_a_deleted_pod_comes_back_new_and_old_ones_are_scaled_away_first() -> None:
    async with on_delete() as grove:
        await grove.change_image(NAME, "pc-a", image=NEW)
        await grove.settle()
        await _delete_one(grove, "0-pc-a")
        assert await _images(grove, "0-pc-a") == ["app:1", NEW]
        assert (await grove.clique(f"{NAME}-0-pc-a")).status.updatedReplicas == 1
        await grove.scale(PodClique, f"{NAME}-0-pc-a", 1)
        await grove.expect(9, 9)
        assert await _images(grove, "0-pc-a") == [NEW]


async def test_od4_to_od6_members_of_groups_are_changed_in_place_too() -> None:
    async with on_delete() as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-a", "pc-b", "pc-c", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
        await _delete_one(grove, "0-sg-x-0-pc-c")
        assert await _images(grove, "0-sg-x-0-pc-c") == ["app:1", "app:1", NEW]
        await _delete_one(grove, "0-pc-a")
        assert await _images(grove, "0-pc-a") == ["app:1", NEW]
        assert await _images(grove, "0-sg-x-0-pc-b") == ["app:1"]


async def test_od7_all_replicas_of_a_set_are_alike() -> None:
    async with on_delete(20, replicas=2) as grove:
        before = await grove.uids()
        await grove.change_image(NAME, "pc-b", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
        for replica in (0, 1):
            clique = await grove.clique(f"{NAME}-{replica}-sg-x-0-pc-b")
            assert clique.spec.podSpec.containers[0].image == NEW


async def test_od8_a_pod_comes_back_elsewhere_when_the_new_template_avoids_its_node() -> None:
    async with on_delete(11) as grove:
        victim = (await grove.pods(f"{NAME}-0-pc-a"))[0]
        node = victim.spec.nodeName
        expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        path = "/apis/grove.io/v1alpha1/namespaces/ml/podcliquesets/" + NAME
        patch = [{"op": "add", "path": "/spec/template/cliques/0/spec/podSpec/affinity", "value": affinity}]
        headers = {"Content-Type": "application/json-patch+json"}
        await grove.client.raw("PATCH", path, body=patch, headers=headers)
        await grove.settle()
        others = await grove.uids() - {victim.metadata.uid}
        await grove.delete_pod(victim)
        await grove.expect(10, 10)
        assert others <= await grove.uids()
        assert node not in {each.spec.nodeName for each in await grove.pods(f"{NAME}-0-pc-a")}


async def test_od9_the_strategy_may_be_switched_at_any_time() -> None:
    async with on_delete() as grove:
        await grove.client.patch(
            PodCliqueSet, NAME, {"spec": {"updateStrategy": {"type": "RollingRecreate"}}}, namespace="ml"
        )
        await grove.change_image(NAME, "pc-b", image=NEW)

        async def rolled() -> bool:
            return [*await _images(grove, "0-sg-x-0-pc-b"), *await _images(grove, "0-sg-x-1-pc-b")] == [NEW, NEW]

        await grove.until("new pods", rolled)
        await grove.expect(10, 10)
        await grove.client.patch(PodCliqueSet, NAME, {"spec": {"updateStrategy": {"type": "OnDelete"}}}, namespace="ml")
        before = await grove.uids()
        await grove.change_image(NAME, "pc-c", image=NEW)
        await grove.settle()
        assert before == await grove.uids()
