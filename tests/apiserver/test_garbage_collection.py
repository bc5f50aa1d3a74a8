"""Objects whose owners go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apiserver.world import CONFIG_MAPS, PODS, Doc, World, config_map, pod

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def owner(of: Doc, **more: Any) -> list[Doc]:
    metadata = of["metadata"]
    reference = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return [{**reference, **more}]


async def settle() -> None:
    """Let the work behind the requests run out."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_dependents_go_in_the_background_down_the_whole_tree(world: World) -> None:
    async with world.running():
        root = await world.ok("POST", CONFIG_MAPS, config_map("root"))
        child = await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=owner(root)))
        await world.ok("POST", CONFIG_MAPS, config_map("grandchild", ownerReferences=owner(child)))
        await world.ok("DELETE", f"{CONFIG_MAPS}/root")
        await world.until_gone(f"{CONFIG_MAPS}/grandchild")
        assert not await world.exists(f"{CONFIG_MAPS}/child")


async def test_an_object_with_another_owner_stays_and_forgets_the_one_that_went(world: World) -> None:
    async with world.running():
        first = await world.ok("POST", CONFIG_MAPS, config_map("first"))
        second = await world.ok("POST", CONFIG_MAPS, config_map("second"))
        references = owner(first) + owner(second)
        await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=references))
        await world.ok("DELETE", f"{CONFIG_MAPS}/first")
        await settle()
        child = await world.ok("GET", f"{CONFIG_MAPS}/child")
        assert child["metadata"]["ownerReferences"] == owner(second)


async def test_an_owner_of_that_name_but_another_uid_is_absent(world: World) -> None:
    async with world.running():
        there = await world.ok("POST", CONFIG_MAPS, config_map("owner"))
        references = owner(there, uid="of-an-earlier-one")
        await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=references))
        await world.until_gone(f"{CONFIG_MAPS}/child")


async def test_an_owner_in_another_namespace_is_absent(world: World) -> None:
    async with world.running():
        there = await world.ok("POST", "/api/v1/namespaces/kube-system/configmaps", config_map("owner"))
        await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=owner(there)))
        await world.until_gone(f"{CONFIG_MAPS}/child")


async def test_nobody_is_collected_for_an_owner_of_a_kind_that_is_not_served(world: World) -> None:
    async with world.running():
        references = [{"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "1"}]
        await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=references))
        await settle()
        assert await world.exists(f"{CONFIG_MAPS}/child")


async def test_in_the_foreground_the_owner_waits_for_dependents_that_block_it(world: World) -> None:
    async with world.running():
        root = await world.ok("POST", CONFIG_MAPS, config_map("root"))
        blocking = owner(root, blockOwnerDeletion=True)
        await world.ok("POST", PODS, pod("slow", metadata={"ownerReferences": blocking}, nodeName="n"))
        marked = await world.ok("DELETE", f"{CONFIG_MAPS}/root", {"propagationPolicy": "Foreground"})
        assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
        await settle()
        assert (await world.ok("GET", f"{PODS}/slow"))["metadata"]["deletionTimestamp"]
        assert await world.exists(f"{CONFIG_MAPS}/root")
        await world.ok("DELETE", f"{PODS}/slow", {"gracePeriodSeconds": 0})
        await world.until_gone(f"{CONFIG_MAPS}/root")


async def test_in_the_foreground_the_owner_does_not_wait_for_others(world: World) -> None:
    async with world.running():
        root = await world.ok("POST", CONFIG_MAPS, config_map("root"))
        held = config_map("held", ownerReferences=owner(root), finalizers=["x.io/f"])
        await world.ok("POST", CONFIG_MAPS, held)
        await world.ok("DELETE", f"{CONFIG_MAPS}/root", {"propagationPolicy": "Foreground"})
        await world.until_gone(f"{CONFIG_MAPS}/root")
        await settle()
        assert (await world.ok("GET", f"{CONFIG_MAPS}/held"))["metadata"]["deletionTimestamp"]


async def test_orphans_stay_and_have_no_owner(world: World) -> None:
    async with world.running():
        root = await world.ok("POST", CONFIG_MAPS, config_map("root"))
        await world.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=owner(root)))
        await world.ok("DELETE", f"{CONFIG_MAPS}/root", {"propagationPolicy": "Orphan"})
        await world.until_gone(f"{CONFIG_MAPS}/root")
        await settle()
        assert "ownerReferences" not in (await world.ok("GET", f"{CONFIG_MAPS}/child"))["metadata"]


@pytest.mark.parametrize(("policy", "stays"), [(None, True), ("Background", False)])
async def test_pods_of_a_job_stay_unless_the_client_says_otherwise(
    world: World, policy: str | None, stays: bool
) -> None:
    async with world.running():
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = await world.ok("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
        await world.ok("POST", PODS, pod("a", metadata={"ownerReferences": owner(job)}))
        answer = await world.call("DELETE", f"{JOBS}/j", {"propagationPolicy": policy} if policy else None)
        assert ("child pods are preserved" in answer.headers.get("warning", "")) is stays
        await world.until_gone(f"{JOBS}/j")
        await settle()
        assert await world.exists(f"{PODS}/a") is stays


@pytest.mark.looptime
async def test_events_are_kept_for_an_hour_after_they_were_last_seen(world: World) -> None:
    path = "/api/v1/namespaces/default/events"
    async with world.running():
        for name in ("old", "renewed"):
            involved = {"kind": "Pod", "name": "p", "namespace": "default"}
            await world.ok("POST", path, {"metadata": {"name": name}, "involvedObject": involved})
        await world.clock.sleep(1800)
        await world.ok("PATCH", f"{path}/renewed", {"count": 2}, "application/merge-patch+json")
        await world.clock.sleep(1830)
        assert not await world.exists(f"{path}/old")
        assert await world.exists(f"{path}/renewed")
        await world.clock.sleep(1800)
        assert not await world.exists(f"{path}/renewed")
