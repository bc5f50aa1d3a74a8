"""The built-in store keeps what queues hold, survives its process, and keeps no more than it needs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bosket.api.kai import UsageDBConfig, UsageParams
from bosket.scheduler.configuration.configuration import ConfigurationError
from bosket.scheduler.configuration.usage_parameters import parameters_from
from bosket.scheduler.usage.builtin import BuiltinUsage
from bosket.scheduler.usage.history import Sample, sample_of
from bosket.scheduler.usage.source import SampledSource, UsageUnavailable
from bosket.scheduler.usage.stores import open_source
from bosket.testing.build import node, pod, pod_group, queue
from bosket.testing.cluster import NOW, snapshot_of
from tests.present import present

START = 1_750_000_000.0 // 3600 * 3600
CAPACITY = (8.0, 64000.0, 1e12)


def store(path: Path | str = "", **params: Any) -> BuiltinUsage:
    return BuiltinUsage(parameters_from(UsageParams(**params)), str(path))


async def hold(usage: BuiltinUsage, first: int, end: int, **gpus: float) -> None:
    """A sample each minute, from one minute to another."""
    for minute in range(first, end):
        held = {name: (amount, 0.0, 0.0) for name, amount in gpus.items() if amount}
        await usage.record(Sample(START + 60 * minute, CAPACITY, held))


async def gpu_parts(usage: BuiltinUsage, minute: float) -> dict[str, float]:
    return {queue: used[0] for queue, used in (await usage.fetch(START + 60 * minute)).parts.items()}


async def test_what_queues_held_is_their_usage() -> None:
    usage = store(windowSize="1h")
    await hold(usage, 1, 11, a=8, b=0)
    await hold(usage, 11, 21, a=2, b=6)
    assert await gpu_parts(usage, 20.5) == {"a": pytest.approx(100 / 160), "b": pytest.approx(60 / 160)}
    answer = await usage.fetch(START + 60 * 21)
    assert (answer.as_of, answer.source) == (START + 60 * 21, "builtin")


async def test_a_store_that_nobody_tells_anything_has_no_answer() -> None:
    """A disk that hangs must not look like queues that hold nothing: what was known before goes on to count."""
    usage = store(windowSize="1h")
    with pytest.raises(UsageUnavailable, match="nobody has noted what queues hold yet"):
        await usage.fetch(START)
    await hold(usage, 0, 1, a=8)
    assert await gpu_parts(usage, 4.9) == {"a": 1.0}
    with pytest.raises(UsageUnavailable, match="nobody has noted what queues hold since 2025-06-15T"):
        await usage.fetch(START + 301)


async def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    path, options = tmp_path / "new" / "usage.db", {"windowSize": "1h", "halfLifePeriod": "10m"}
    first, unbroken = store(path, **options), store(**options)
    for each in (first, unbroken):
        await hold(each, 0, 10, a=8, b=1)
        await hold(each, 10, 12, a=2)
    await first.aclose()
    second = store(path, **options)
    for each in (second, unbroken):
        await hold(each, 12, 14, a=2, c=3)
    assert await gpu_parts(second, 14.2) == await gpu_parts(unbroken, 14.2)
    assert len(await gpu_parts(second, 14.2)) == 3
    await second.aclose()
    assert (await gpu_parts(second, 14.2)).keys() == {"a", "b", "c"}  # opens again by itself
    await second.aclose()


async def test_a_process_that_is_killed_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    killed = store(path, windowSize="1h")
    await hold(killed, 0, 5, a=8)
    copy_files(tmp_path, tmp_path / "copy")
    survivor = store(tmp_path / "copy" / "usage.db", windowSize="1h")
    assert await gpu_parts(survivor, 5.5) == {"a": 1.0}
    await survivor.aclose()
    await killed.aclose()


def copy_files(folder: Path, to: Path) -> None:
    """As they are at this moment, log and all."""
    files = [each for each in folder.iterdir() if each.is_file()]
    to.mkdir()
    for each in files:
        (to / each.name).write_bytes(each.read_bytes())


async def test_only_what_the_window_needs_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    usage, unpruned = store(path, windowSize="1h"), store(windowSize="52w")
    for each in (usage, unpruned):
        await hold(each, 0, 30, a=1, gone=4)
        await hold(each, 30, 400, a=1)
    expected = await unpruned.fetch(START + 60 * 399.5)
    assert await gpu_parts(usage, 399.5) == {"a": pytest.approx(1 / 8)}
    assert expected.parts["a"][0] == pytest.approx(1 / 8)
    await usage.aclose()
    database = sqlite3.connect(path)
    (samples,) = database.execute("SELECT count(*) FROM sample").fetchone()
    queues = database.execute("SELECT DISTINCT queue FROM change").fetchall()
    database.close()
    assert 60 <= samples <= 60 + 60 + 6  # a window, the lookback, and up to an hour that waits to be dropped
    assert queues == [("a",)]


async def test_after_a_clock_that_went_back_the_file_is_as_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    usage = store(path, windowSize="1h")
    await hold(usage, 0, 100, a=8)
    await hold(usage, 5, 8, b=8)
    before = await gpu_parts(usage, 7.5)
    await usage.aclose()
    assert before == {"a": pytest.approx(5 / 8), "b": pytest.approx(3 / 8)}
    assert await gpu_parts(usage, 7.5) == before
    await usage.aclose()


async def test_two_schedulers_do_not_write_into_one_file(tmp_path: Path) -> None:
    first, second = store(tmp_path / "usage.db"), store(tmp_path / "usage.db")
    await hold(first, 0, 2, a=8)
    with pytest.raises(UsageUnavailable, match=r"usage\.db: database is locked"):
        await hold(second, 2, 3, a=8)
    with pytest.raises(UsageUnavailable, match="database is locked"):
        await second.fetch(START)
    await first.aclose()
    await hold(second, 2, 3, a=8)
    assert await gpu_parts(second, 2.5) == {"a": 1.0}
    await second.aclose()


@pytest.mark.parametrize("content", [b"this is no database, whatever its name says" * 99, None])
async def test_a_file_that_can_not_be_used_is_an_answer(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "usage.db"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    usage = store(path)
    with pytest.raises(UsageUnavailable, match=r"usage\.db: "):
        await usage.fetch(START)
    await usage.aclose()


async def test_a_file_of_another_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 7")
    database.close()
    usage = store(path)
    with pytest.raises(UsageUnavailable, match="its format is 7, this version of Bosket writes 1"):
        await usage.fetch(START)
    await usage.aclose()


async def test_a_sample_that_can_not_be_written_is_not_counted_and_the_next_answer_says_so(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    usage = store(path, windowSize="1h")
    await hold(usage, 0, 2, a=8)
    await present(usage._file).call(lambda journal: journal._connection.execute("PRAGMA query_only = 1"))
    with pytest.raises(UsageUnavailable, match="readonly"):
        await hold(usage, 2, 3, b=8)
    with pytest.raises(UsageUnavailable, match="the last sample could not be kept"):
        await usage.fetch(START + 150)
    await present(usage._file).call(lambda journal: journal._connection.execute("PRAGMA query_only = 0"))
    await hold(usage, 3, 5, b=8)
    found = await gpu_parts(usage, 4.5)
    await usage.aclose()
    assert found == await gpu_parts(usage, 4.5) == {"a": pytest.approx(3 / 5), "b": pytest.approx(2 / 5)}
    await usage.aclose()


def test_a_sample_counts_queues_with_all_below_them_and_nodes_with_all_they_have() -> None:
    snapshot = snapshot_of(
        node("n1", gpus=8, cpu="10", memory="1Gi"),
        node("n2", gpus=0, cpu="2", memory="1Gi"),
        queue("department"),
        queue("team", parent="department"),
        queue("idle"),
        pod_group("g", queue="team"),
        pod("runs").gpu(3).cpu("500m").memory("1Mi").of_group("g").running_on("n1").build(),
        pod("waits").gpu(8).of_group("g").build(),
    )
    sample = sample_of(snapshot, NOW)
    held = (3.0, 500.0, 2.0**20)
    assert sample.held == {"department": held, "team": held}
    assert sample.capacity == (8.0, 12000.0, 2.0**31)


def test_the_configuration_names_the_store() -> None:
    usage = open_source(UsageDBConfig(clientType="builtin", connectionStringEnvVar="DB"), {"DB": "/x/usage.db"})
    assert isinstance(usage, BuiltinUsage)
    assert usage._source == "builtin /x/usage.db"
    assert usage.sample_interval_seconds == 60
    fine = UsageParams(extraParams={"queryResolution": "1s"})
    in_memory = open_source(UsageDBConfig(clientType="fake-with-history", connectionString="x", usageParams=fine))
    assert isinstance(in_memory, BuiltinUsage)
    assert (in_memory.sample_interval_seconds, in_memory._file) == (1, None)
    assert not isinstance(open_source(UsageDBConfig(clientType="fake")), SampledSource)


def test_a_variable_that_is_not_set_is_named() -> None:
    config = UsageDBConfig(clientType="prometheus", connectionStringEnvVar="PROMETHEUS")
    with pytest.raises(ConfigurationError, match="connectionStringEnvVar names PROMETHEUS, which is not set"):
        open_source(config, {})
