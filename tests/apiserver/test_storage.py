"""What a server with a data directory keeps, and what it says when it can't."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bosket.apiserver.persistence.database import SCHEMA_VERSION, StorageError
from bosket.apiserver.persistence.directory import DATABASE, DataDirectory
from tests.apiserver.world import (
    CONFIG_MAPS,
    DEFINITIONS,
    MERGE,
    PODS,
    WIDGETS,
    World,
    config_map,
    definition,
    widget,
)


@asynccontextmanager
async def life(path: Path, **options: Any) -> AsyncIterator[World]:
    """A server on the directory, from its start to its end."""
    with DataDirectory(path) as data:
        world = World(data=data, **options)
        try:
            yield world
        finally:
            world.server.close()


def count_rows(path: Path) -> int:
    connection = sqlite3.connect(path / DATABASE)
    try:
        (count,) = connection.execute("SELECT count(*) FROM write").fetchone()
        return int(count)
    finally:
        connection.close()


async def test_objects_are_there_again_to_the_byte(tmp_path: Path) -> None:
    async with life(tmp_path) as world:
        await world.create_pod("a", nodeName="n1")
        await world.ok("POST", CONFIG_MAPS, config_map("gone"))
        await world.ok("DELETE", f"{CONFIG_MAPS}/gone")
        before = await world.ok("GET", f"{PODS}/a")
    async with life(tmp_path) as world:
        assert await world.ok("GET", f"{PODS}/a") == before
        assert not await world.exists(f"{CONFIG_MAPS}/gone")
        found = await world.ok("GET", PODS, fieldSelector="spec.nodeName=n1")
        assert [each["metadata"]["name"] for each in found["items"]] == ["a"]


async def test_versions_go_on_growing(tmp_path: Path) -> None:
    async with life(tmp_path) as world:
        created = await world.ok("POST", CONFIG_MAPS, config_map("a"))
        last = await world.ok("DELETE", f"{CONFIG_MAPS}/a") and world.server.store.version
        assert last > int(created["metadata"]["resourceVersion"])
    async with life(tmp_path) as world:
        created = await world.ok("POST", CONFIG_MAPS, config_map("b"))
        assert int(created["metadata"]["resourceVersion"]) > last


async def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    async with life(tmp_path) as world:
        created = await world.ok("POST", CONFIG_MAPS, config_map("a", labels={"colour": "red"}))
        await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"colour": "blue"}}}, MERGE)
        await world.ok("DELETE", f"{CONFIG_MAPS}/a")
    async with life(tmp_path) as world:
        await world.ok("POST", CONFIG_MAPS, config_map("b"))
        version = created["metadata"]["resourceVersion"]
        everything = await world.watch(CONFIG_MAPS, resourceVersion=version)
        assert [await everything.brief() for _ in range(3)] == [("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")]
        # What a selection saw before the restart is known, too.
        red = await world.watch(CONFIG_MAPS, resourceVersion=version, labelSelector="colour=red")
        left = await red.next()
        assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"colour": "red"})


async def test_history_that_was_dropped_is_gone_and_the_file_stays_small(tmp_path: Path) -> None:
    async with life(tmp_path, kept_history=20) as world:
        created = await world.ok("POST", CONFIG_MAPS, config_map("a"))
        for number in range(100):
            await world.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": str(number)}}, MERGE)
            await world.ok("POST", CONFIG_MAPS, config_map("short"))
            await world.ok("DELETE", f"{CONFIG_MAPS}/short")
        recent = await world.ok("GET", f"{CONFIG_MAPS}/a")
        await world.ok("POST", CONFIG_MAPS, config_map("b"))
    assert count_rows(tmp_path) < 200  # the default roles are among them
    async with life(tmp_path, kept_history=20) as world:
        assert await world.ok("GET", f"{CONFIG_MAPS}/a") == recent
        old = created["metadata"]["resourceVersion"]
        refused = await world.refused(410, "GET", CONFIG_MAPS, watch="true", resourceVersion=old)
        assert refused["reason"] == "Expired"
        resumed = await world.watch(CONFIG_MAPS, resourceVersion=recent["metadata"]["resourceVersion"])
        seen = [await resumed.brief() for _ in range(3)]
        assert seen == [("ADDED", "short"), ("DELETED", "short"), ("ADDED", "b")]


async def test_custom_kinds_are_served_again_with_their_objects(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 9}}}
    selectable = [{"jsonPath": ".spec.size"}]
    async with life(tmp_path) as world:
        await world.ok("POST", DEFINITIONS, definition(schema, selectableFields=selectable))
        await world.ok("POST", WIDGETS, widget("w", {"size": 3}))
        await world.ok("POST", WIDGETS, widget("v", {"size": 4}))
    async with life(tmp_path) as world:
        found = await world.ok("GET", WIDGETS, fieldSelector="spec.size=3")
        assert [each["metadata"]["name"] for each in found["items"]] == ["w"]
        await world.refused(422, "POST", WIDGETS, widget("x", {"size": 10}))


async def test_a_kind_that_was_removed_leaves_nothing_to_its_successor(tmp_path: Path) -> None:
    async with life(tmp_path) as world, world.running():
        await world.ok("POST", DEFINITIONS, definition())
        old = await world.ok("POST", WIDGETS, widget("w"))
        path = f"{DEFINITIONS}/widgets.example.com"
        await world.ok("DELETE", path)
        await world.until_gone(path)
    async with life(tmp_path) as world:
        await world.ok("POST", DEFINITIONS, definition())
        assert (await world.ok("GET", WIDGETS))["items"] == []
        version = old["metadata"]["resourceVersion"]
        await world.refused(410, "GET", WIDGETS, watch="true", resourceVersion=version)


async def test_work_that_was_under_way_is_finished_by_the_next_server(tmp_path: Path) -> None:
    """Nobody ran the garbage collector or drained the namespace before the first server ended."""
    async with life(tmp_path) as world:
        owner = await world.ok("POST", CONFIG_MAPS, config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await world.ok("POST", CONFIG_MAPS, config_map("dependent", ownerReferences=[reference]))
        await world.ok("DELETE", f"{CONFIG_MAPS}/owner")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "left"}}
        await world.ok("POST", "/api/v1/namespaces", namespace)
        await world.ok("POST", "/api/v1/namespaces/left/configmaps", config_map("inside"))
        await world.ok("DELETE", "/api/v1/namespaces/left")
    async with life(tmp_path) as world, world.running():
        await world.until_gone(f"{CONFIG_MAPS}/dependent")
        await world.until_gone("/api/v1/namespaces/left")


async def test_writes_that_come_together_share_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with life(tmp_path) as world:
        await world.exists(f"{CONFIG_MAPS}/a")  # what every cluster has is made first
        database = world.server._journal._database  # type: ignore[union-attr]
        sizes: list[int] = []
        append = database.append

        def counted(rows: Any) -> None:
            sizes.append(len(rows))
            append(rows)

        monkeypatch.setattr(database, "append", counted)
        await asyncio.gather(*(world.ok("POST", CONFIG_MAPS, config_map(f"c{index}")) for index in range(300)))
    assert sum(sizes) == 300
    assert len(sizes) < 100


async def test_nobody_hears_of_a_write_that_is_not_kept_yet(tmp_path: Path) -> None:
    async with life(tmp_path) as world:
        await world.ok("POST", CONFIG_MAPS, config_map("a"))
        events = await world.watch(CONFIG_MAPS, resourceVersion=world.server.store.version)
        database = world.server._journal._database  # type: ignore[union-attr]
        with database._lock:  # the disk takes its time
            write = asyncio.create_task(world.ok("POST", CONFIG_MAPS, config_map("b")))
            heard = asyncio.create_task(events.brief())
            read = asyncio.create_task(world.call("GET", f"{CONFIG_MAPS}/b"))
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(task.done() for task in (write, heard, read))
        assert await heard == ("ADDED", "b")
        assert (await read).status == 200
        assert (await write)["metadata"]["name"] == "b"


async def test_a_full_disk_ends_the_server_and_what_it_acknowledged_stays(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        world = World(data=data)
        await world.ok("POST", CONFIG_MAPS, config_map("kept"))
        running = asyncio.create_task(world.server.run())
        connection = data.database._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        refused = await world.refused(500, "POST", CONFIG_MAPS, config_map("lost", {"k": "v" * 100_000}))
        assert "full" in refused["message"]
        with pytest.raises(StorageError, match="full"):
            await running
        await world.refused(500, "POST", CONFIG_MAPS, config_map("later"))
        world.server.close()
    async with life(tmp_path) as world:
        assert await world.exists(f"{CONFIG_MAPS}/kept")
        assert not await world.exists(f"{CONFIG_MAPS}/lost")


# directories that can't be used


def test_two_servers_do_not_share_a_directory(tmp_path: Path) -> None:
    with DataDirectory(tmp_path), pytest.raises(StorageError, match="another server is using it"):
        DataDirectory(tmp_path)
    DataDirectory(tmp_path).close()


def test_only_its_owner_may_read_the_directory(tmp_path: Path) -> None:
    DataDirectory(tmp_path / "data").close()
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    assert (tmp_path / "data" / DATABASE).stat().st_mode & 0o077 == 0


async def _used(path: Path) -> None:
    async with life(path) as world:
        for number in range(50):
            await world.ok("POST", CONFIG_MAPS, config_map(f"c{number}", {"k": "v" * 2000}))


async def test_a_truncated_file_is_refused_with_a_clear_error(tmp_path: Path) -> None:
    await _used(tmp_path)
    file = tmp_path / DATABASE
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(StorageError, match=r"state\.db is damaged .*restore it"):
        DataDirectory(tmp_path)


@pytest.mark.parametrize("empty", [True, False])
async def test_a_file_that_is_missing_or_empty_is_refused(tmp_path: Path, empty: bool) -> None:
    await _used(tmp_path)
    file = tmp_path / DATABASE
    file.unlink()
    if empty:
        file.touch()
    with pytest.raises(StorageError, match="missing or empty"):
        DataDirectory(tmp_path)


async def test_a_file_that_was_overwritten_is_refused(tmp_path: Path) -> None:
    await _used(tmp_path)
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(8192)
        file.write(os.urandom(20_000))
    with pytest.raises(StorageError, match="is damaged"):
        DataDirectory(tmp_path)


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / DATABASE
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE people (name)")
    connection.close()
    content = file.read_bytes()
    with pytest.raises(StorageError, match="something else than Bosket"):
        DataDirectory(tmp_path)
    assert file.read_bytes() == content
    file.write_text("not a database at all" * 1000)
    with pytest.raises(StorageError, match="damaged"):
        DataDirectory(tmp_path)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    DataDirectory(tmp_path).close()
    connection = sqlite3.connect(tmp_path / DATABASE)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StorageError, match=f"has format {SCHEMA_VERSION + 1}, this version of Bosket reads"):
        DataDirectory(tmp_path)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"data directory {tmp_path}/file"):
        DataDirectory(tmp_path / "file")


def test_what_is_remembered_is_made_once(tmp_path: Path) -> None:
    with DataDirectory(tmp_path) as data:
        assert data.remembered("token", lambda: b"first") == b"first"
    with DataDirectory(tmp_path) as data:
        assert data.remembered("token", lambda: b"second") == b"first"
