"""Two who write the same object: who has seen the newest version wins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bosket.apiserver.writing.writer import Write
from tests.apiserver.world import (
    CONFIG_MAPS,
    DEFINITIONS,
    JSON_PATCH,
    MERGE,
    PODS,
    Doc,
    World,
    config_map,
    definition,
)

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_an_update_from_a_stale_version_is_refused(world: World) -> None:
    old = await world.create_pod()
    await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    old["metadata"]["labels"] = {"x": "mine"}
    status = await world.refused(409, "PUT", f"{PODS}/a", old)
    assert status["reason"] == "Conflict"
    assert status["message"] == f'Operation cannot be fulfilled on pods "a": {MODIFIED}'
    assert (await world.ok("GET", f"{PODS}/a"))["metadata"]["labels"] == {"x": "y"}


async def test_an_update_without_a_version_overwrites_a_built_in_kind(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}))
    await world.ok("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"k": "2"}))
    assert (await world.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "2"}


async def test_a_patch_that_names_a_stale_version_is_refused(world: World) -> None:
    old = await world.ok("POST", CONFIG_MAPS, config_map("a"))
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, MERGE)
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    await world.refused(409, "PATCH", f"{CONFIG_MAPS}/a", stale, MERGE)


async def test_a_patch_whose_test_fails_is_refused_and_says_what_it_found(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "1"}))
    operations = [{"op": "test", "path": "/data/k", "value": "0"}, {"op": "replace", "path": "/data/k", "value": "2"}]
    status = await world.refused(422, "PATCH", f"{CONFIG_MAPS}/a", operations, JSON_PATCH)
    assert "/data/k" in status["message"]
    assert (await world.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "1"}


async def test_another_objects_uid_is_a_conflict(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    status = await world.refused(409, "PUT", f"{CONFIG_MAPS}/a", config_map("a", uid="other"))
    assert "Precondition failed: UID in precondition: other" in status["message"]


async def test_a_write_that_changes_nothing_makes_no_version(world: World) -> None:
    before = await world.create_pod()
    after = await world.ok("PUT", f"{PODS}/a", before)
    patched = await world.ok("PATCH", f"{PODS}/a", {"metadata": {"labels": None}}, MERGE)
    assert after["metadata"] == before["metadata"] == patched["metadata"]


async def test_name_and_namespace_of_a_path_hold(world: World) -> None:
    await world.ok("POST", CONFIG_MAPS, config_map("a"))
    status = await world.refused(400, "PUT", f"{CONFIG_MAPS}/a", config_map("b"))
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"
    status = await world.refused(400, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}}, MERGE)
    assert status["message"] == "the name of the object (b) does not match the name on the URL (a)"


async def test_generation_counts_changes_of_the_spec_only(world: World) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = await world.ok("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert created["metadata"]["generation"] == 1
    labelled = await world.ok("PATCH", f"{path}/d", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    scaled = await world.ok("PATCH", f"{path}/d", {"spec": {"replicas": 3}}, MERGE)
    assert scaled["metadata"]["generation"] == 2
    observed = await world.ok("PATCH", f"{path}/d/status", {"status": {"replicas": 3}}, MERGE)
    assert observed["metadata"]["generation"] == 2


async def test_status_and_spec_are_written_apart(world: World) -> None:
    await world.create_pod()
    by_main = await world.ok("PATCH", f"{PODS}/a", {"status": {"phase": "Running"}}, MERGE)
    assert by_main["status"]["phase"] == "Pending"
    patch = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    by_status = await world.ok("PATCH", f"{PODS}/a/status", patch, MERGE)
    assert by_status["status"]["phase"] == "Running"
    assert "nodeName" not in by_status["spec"]


async def test_a_lease_is_created_by_an_update_of_a_free_name(world: World) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    answer = await world.call("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert answer.status == 201
    await world.refused(404, "PUT", f"{PODS}/a", {"metadata": {"name": "a"}, "spec": {"containers": []}})


# --- while somebody else is asked about a change


class SlowToAnswer:
    """Takes a second for each change of a config map that has data; `asked` counts."""

    def __init__(self) -> None:
        self.asked = 0
        #: called while a change is thought about
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def admit(self, write: Write, new: Doc, old: Doc | None) -> None:
        if write.kind.kind != "ConfigMap" or old is None or new.get("data") == old.get("data"):
            return
        self.asked += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        await asyncio.sleep(1.0)


def slow_world() -> tuple[World, SlowToAnswer]:
    slow = SlowToAnswer()
    return World(admission=lambda store: slow), slow


async def label_often(world: World, seconds: int) -> int:
    """A controller that writes the object ten times a second; gives back how often it could."""
    for count in range(seconds * 10):
        await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"count": str(count)}}}, MERGE)
        await asyncio.sleep(0.1)
    return seconds * 10


@pytest.mark.looptime
async def test_a_patch_of_an_object_that_others_write_all_the_time_is_stored_at_the_second_attempt() -> None:
    world, slow = slow_world()
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "0"}))
    others = asyncio.create_task(label_often(world, 5))
    await asyncio.sleep(0.25)
    patched = await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, MERGE)
    assert (patched["data"], slow.asked) == ({"k": "1"}, 2)
    assert await others == 50
    found = await world.ok("GET", f"{CONFIG_MAPS}/a")
    assert (found["data"], found["metadata"]["labels"]) == ({"k": "1"}, {"count": "49"})


@pytest.mark.looptime
async def test_patches_that_are_asked_about_at_once_are_all_stored() -> None:
    world, slow = slow_world()
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "0"}))
    bodies = [{"data": {f"k{number}": "1"}} for number in range(8)]
    await asyncio.gather(*(world.ok("PATCH", f"{CONFIG_MAPS}/a", body, MERGE) for body in bodies))
    assert len((await world.ok("GET", f"{CONFIG_MAPS}/a"))["data"]) == 9
    assert slow.asked == 8 + 7


@pytest.mark.looptime
async def test_a_change_that_insists_on_its_version_loses_at_once() -> None:
    world, slow = slow_world()
    old = await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "0"}))
    put = asyncio.create_task(world.refused(409, "PUT", f"{CONFIG_MAPS}/a", {**old, "data": {"k": "1"}}))
    await asyncio.sleep(0.5)
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert MODIFIED in (await put)["message"]
    assert slow.asked == 1


@pytest.mark.looptime
async def test_a_replacement_that_names_no_version_is_tried_again_when_the_object_changed_meanwhile() -> None:
    world, slow = slow_world()
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "0"}))
    put = asyncio.create_task(world.ok("PUT", f"{CONFIG_MAPS}/a", config_map("a", {"k": "1"})))
    await asyncio.sleep(0.5)
    await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert ((await put)["data"], slow.asked) == ({"k": "1"}, 2)


class Meanwhile:
    """Others do something while it is asked about a widget."""

    def __init__(self) -> None:
        self.happens: Callable[[], Awaitable[object]] | None = None

    async def check(self, write: Write, new: Doc, old: Doc | None) -> None:
        if self.happens is not None and write.kind.kind == "Widget":
            happens, self.happens = self.happens, None
            await happens()


GOING = {
    "namespace going": ("/api/v1/namespaces/t", False, 403),
    "namespace gone": ("/api/v1/namespaces/t", True, 404),
    "definition going": (f"{DEFINITIONS}/widgets.example.com", False, 403),
    "definition gone": (f"{DEFINITIONS}/widgets.example.com", True, 404),
}


@pytest.mark.looptime
@pytest.mark.parametrize("case", GOING)
async def test_a_new_object_whose_place_went_while_others_were_asked_is_refused(case: str) -> None:
    path, until_gone, status = GOING[case]
    others = Meanwhile()
    world = World(validation=lambda store: others)
    await world.ok("POST", DEFINITIONS, definition({"type": "object"}))
    await world.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "t"}})
    widgets = "/apis/example.com/v1/namespaces/t/widgets"
    widget: Doc = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    await world.ok("POST", widgets, {**widget, "metadata": {"name": "kept", "finalizers": ["example.com/f"]}})

    async def go() -> None:
        await world.ok("DELETE", path)
        if until_gone:
            await world.ok("PATCH", f"{widgets}/kept", {"metadata": {"finalizers": None}}, MERGE)
            await world.until_gone(path)

    async with world.running():
        others.happens = go
        await world.refused(status, "POST", widgets, widget)
        assert others.happens is None
    assert not await world.exists(f"{widgets}/w")  # type: ignore[unreachable]


@pytest.mark.looptime
async def test_who_has_to_write_the_object_before_it_answers_is_let_through() -> None:
    """A claim of an object is no lock; a change that never succeeds fails after half a minute."""
    world, slow = slow_world()
    await world.ok("POST", CONFIG_MAPS, config_map("a", {"k": "0"}))

    async def label() -> None:
        patch = {"metadata": {"labels": {"asked": str(slow.asked)}}}
        await world.ok("PATCH", f"{CONFIG_MAPS}/a", patch, MERGE)

    slow.meanwhile = label
    started = world.clock.monotonic()
    refusal = await world.refused(409, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "1"}}, MERGE)
    assert MODIFIED in refusal["message"]
    assert world.clock.monotonic() - started < 45
    assert slow.asked <= 10
