"""Deleting: at once, after a grace period, or when finalizers are done."""

from __future__ import annotations

import pytest

from tests.apiserver.world import CONFIG_MAPS, MERGE, PODS, World, config_map, pod


async def test_an_object_without_ties_goes_at_once_and_is_answered_with_a_status(world: World) -> None:
    created = await world.ok("POST", CONFIG_MAPS, config_map("a"))
    answer = await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert not await world.exists(f"{CONFIG_MAPS}/a")
    await world.refused(404, "DELETE", f"{CONFIG_MAPS}/a")


async def test_a_pod_without_a_node_goes_at_once_and_is_answered_with_itself(world: World) -> None:
    await world.create_pod("a")
    assert (await world.ok("DELETE", f"{PODS}/a"))["kind"] == "Pod"
    assert not await world.exists(f"{PODS}/a")


async def test_a_pod_on_a_node_waits_for_its_kubelet(world: World) -> None:
    await world.create_pod("a", nodeName="n", terminationGracePeriodSeconds=7)
    marked = await world.ok("DELETE", f"{PODS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    assert marked["metadata"]["generation"] == 2
    again = await world.ok("DELETE", f"{PODS}/a")
    assert again["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    await world.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert not await world.exists(f"{PODS}/a")


async def test_a_second_delete_may_shorten_the_grace_but_not_lengthen_it(world: World) -> None:
    await world.create_pod("a", nodeName="n")
    await world.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 20})
    longer = await world.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 60})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 20
    shorter = await world.ok("DELETE", f"{PODS}/a", gracePeriodSeconds="5")
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_a_finished_pod_has_no_grace(world: World) -> None:
    await world.create_pod("a", nodeName="n")
    await world.ok("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, MERGE)
    await world.ok("DELETE", f"{PODS}/a")
    assert not await world.exists(f"{PODS}/a")


async def test_an_object_with_finalizers_is_marked_and_goes_with_the_last_of_them(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", finalizers=["x.io/one", "x.io/two"]))
    marked = await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert marked["metadata"]["deletionTimestamp"]
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": ["x.io/two"]}}, MERGE)
    assert await world.exists(f"{CONFIG_MAPS}/a")
    events = await world.watch(CONFIG_MAPS)
    assert await events.brief() == ("ADDED", "a")
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert not await world.exists(f"{CONFIG_MAPS}/a")
    assert await events.brief() == ("DELETED", "a")


async def test_a_pod_needs_both_its_grace_and_its_finalizers_to_be_over(world: World) -> None:
    await world.ok("POST", PODS, pod("a", metadata={"finalizers": ["x.io/f"]}, nodeName="n"))
    await world.ok("DELETE", f"{PODS}/a")
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert await world.exists(f"{PODS}/a")
    await world.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert not await world.exists(f"{PODS}/a")


async def test_no_finalizer_can_be_added_to_what_is_going(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", finalizers=["x.io/one"]))
    await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    patch = {"metadata": {"finalizers": ["x.io/one", "x.io/new"]}}
    status = await world.refused(422, "PATCH", f"{CONFIG_MAPS}/a", patch, MERGE)
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    assert "x.io/new" in status["message"]


async def test_the_mark_of_deletion_can_not_be_taken_back(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", finalizers=["x.io/one"]))
    await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    found = await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"deletionTimestamp": None}}, MERGE)
    assert found["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}])
async def test_preconditions_must_hold(world: World, precondition: dict[str, str]) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    status = await world.refused(409, "DELETE", f"{CONFIG_MAPS}/a", {"preconditions": precondition})
    assert "in the precondition" in status["message"]
    assert await world.exists(f"{CONFIG_MAPS}/a")


async def test_a_dry_run_deletes_nothing(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    await world.ok("DELETE", f"{CONFIG_MAPS}/a", {"dryRun": ["All"]})
    await world.ok("DELETE", f"{CONFIG_MAPS}/a", dryRun="All")
    assert await world.exists(f"{CONFIG_MAPS}/a")


async def test_a_collection_is_deleted_as_far_as_it_is_selected(world: World) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        await world.ok("POST", CONFIG_MAPS, config_map(name, labels={"colour": colour}))
    await world.ok("DELETE", CONFIG_MAPS, labelSelector="colour=red")
    found = await world.ok("GET", CONFIG_MAPS)
    assert [each["metadata"]["name"] for each in found["items"]] == ["c"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"gracePeriodSeconds": "soon"}, 400),
        ([], 400),
    ],
)
async def test_options_that_make_no_sense_are_refused(world: World, options: object, code: int) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    await world.refused(code, "DELETE", f"{CONFIG_MAPS}/a", options)
    assert await world.exists(f"{CONFIG_MAPS}/a")
