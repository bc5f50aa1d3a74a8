"""kill -9 in the middle of writes, a hundred times: what was acknowledged is there, and watches go on or get 410.

Writers and a watcher speak HTTP to a server that is killed after a few acknowledged writes and started again on the
same directory. What each of them knows is compared with what the next server says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.apiserver.mortal import TOKEN, Mortal, mortal
from tests.apiserver.world import CONFIG_MAPS, MERGE, config_map

pytestmark = pytest.mark.slow

KILLS = 100
WRITERS = 6
#: So little that watches which were away are sometimes told 410.
KEPT_HISTORY = 15

Session = aiohttp.ClientSession


@dataclass
class Knowledge:
    """What clients know. A value of None: the object is gone."""

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    #: by object: what it may be instead, because no answer arrived
    in_doubt: dict[str, str | None] = field(default_factory=dict)
    #: what the watcher has put together from a list and events
    seen: dict[str, str] = field(default_factory=dict)
    seen_version: int = 0
    newest_version: int = 0
    answers: int = 0
    resumed: int = 0
    expired: int = 0

    def told(self, version: str) -> None:
        self.newest_version = max(self.newest_version, int(version))


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Session]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with Session(url, headers=headers, timeout=aiohttp.ClientTimeout(total=30)) as opened:
        yield opened


async def write(client: Session, known: Knowledge, name: str, value: str, choice: random.Random) -> None:
    """One write that changes what is there; noted as doubtful until it is answered."""
    there = known.acknowledged.get(name) is not None
    deletes = there and choice.random() < 0.3
    outcome = None if deletes else value
    known.in_doubt[name] = outcome
    if deletes:
        request = client.delete(f"{CONFIG_MAPS}/{name}")
    elif there:
        patch = msgspec.json.encode({"data": {"k": value}})
        request = client.patch(f"{CONFIG_MAPS}/{name}", data=patch, headers={"content-type": MERGE})
    else:
        request = client.post(CONFIG_MAPS, json=config_map(name, {"k": value}))
    async with request as response:
        answer = await response.json()
        assert response.status in (200, 201), answer
    known.acknowledged[name] = outcome
    del known.in_doubt[name]
    known.answers += 1
    if not deletes:
        assert int(answer["metadata"]["resourceVersion"]) > 0
        known.told(answer["metadata"]["resourceVersion"])


async def write_on(
    client: Session, known: Knowledge, writer: int, choice: random.Random, enough: Callable[[], None]
) -> None:
    """Until the server dies; says after each write that it may."""
    try:
        while True:
            await write(client, known, f"w{writer}-{choice.randrange(5)}", str(choice.random()), choice)
            enough()
    except (aiohttp.ClientError, OSError):
        return


async def watch_on(client: Session, known: Knowledge) -> None:
    """Follow what happens until the server dies, from where the last watch ended if that is possible."""
    try:
        if known.seen_version == 0:
            await list_anew(client, known)
        query = {"watch": "true", "resourceVersion": str(known.seen_version)}
        async with client.get(CONFIG_MAPS, params=query) as response:
            if response.status == 410:
                known.expired += 1
                known.seen_version = 0
                return await watch_on(client, known)
            assert response.status == 200, await response.text()
            known.resumed += 1
            async for line in response.content:
                if line.endswith(b"\n"):  # a line that was cut off was never heard
                    hear(known, msgspec.json.decode(line))
    except (aiohttp.ClientError, OSError):
        pass
    return None


async def list_anew(client: Session, known: Knowledge) -> None:
    async with client.get(CONFIG_MAPS) as response:
        page = await response.json()
    known.seen = {each["metadata"]["name"]: each["data"]["k"] for each in page["items"]}
    known.seen_version = int(page["metadata"]["resourceVersion"])
    known.told(page["metadata"]["resourceVersion"])


def hear(known: Knowledge, event: dict[str, Any]) -> None:
    kind, metadata = event["type"], event["object"]["metadata"]
    name, version = metadata["name"], metadata["resourceVersion"]
    assert int(version) > known.seen_version, "events come in order, each once"
    assert (kind == "ADDED") == (name not in known.seen), "no event is missing"
    if kind == "DELETED":
        del known.seen[name]
    else:
        known.seen[name] = event["object"]["data"]["k"]
    known.seen_version = int(version)
    known.told(version)


async def check(client: Session, known: Knowledge) -> None:
    """What the server serves after a crash must agree with what clients saw before."""
    async with client.get(CONFIG_MAPS) as response:
        page = await response.json()
    there = {each["metadata"]["name"]: each["data"]["k"] for each in page["items"]}
    for name, value in known.acknowledged.items():
        allowed = {value, known.in_doubt[name]} if name in known.in_doubt else {value}
        assert there.get(name) in allowed, f"{name} is {there.get(name)!r} and must be one of {allowed}"
    assert not there.keys() - known.acknowledged.keys() - known.in_doubt.keys()
    assert int(page["metadata"]["resourceVersion"]) >= known.newest_version
    known.acknowledged = dict(there)
    known.in_doubt.clear()
    # No version is given out twice: the next one is newer than all that any client saw.
    newest = known.newest_version
    await write(client, known, "probe", str(newest), random.Random(newest))
    assert known.acknowledged["probe"] is None or known.newest_version > newest


async def live_and_die(server: Mortal, known: Knowledge, choice: random.Random) -> None:
    """Writers and perhaps a watcher, who meet a sudden end."""
    end = known.answers + choice.randint(1, 30)

    def enough() -> None:
        if known.answers >= end:
            server.kill()

    async with session(server.url) as client:
        await check(client, known)
        async with asyncio.TaskGroup() as tasks:
            if choice.random() < 0.8:  # else history goes on without it
                tasks.create_task(watch_on(client, known))
            for writer in range(WRITERS):
                tasks.create_task(write_on(client, known, writer, random.Random(choice.random()), enough))


async def test_a_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    choice = random.Random(8)
    known = Knowledge()
    for _ in range(KILLS):
        with mortal(tmp_path, kept_history=KEPT_HISTORY) as server:
            await live_and_die(server, known, choice)
    assert known.answers > 10 * KILLS
    assert known.resumed > KILLS // 3
    assert known.expired > 0
