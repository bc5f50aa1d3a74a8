from __future__ import annotations

import asyncio

from bosket.runtime.keyed_lock import KeyedLock


async def test_one_task_at_a_time_holds_a_key_and_others_hold_other_keys() -> None:
    locks: KeyedLock[str] = KeyedLock()
    seen: list[str] = []
    release = asyncio.Event()

    async def work(key: str, name: str) -> None:
        async with locks.hold(key):
            seen.append(f"{name} in")
            await release.wait()
            seen.append(f"{name} out")

    async with asyncio.TaskGroup() as tasks:
        for key, name in (("a", "1"), ("a", "2"), ("b", "3")):
            tasks.create_task(work(key, name))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == ["1 in", "3 in"]
        release.set()
    assert seen.index("1 out") < seen.index("2 in")


async def test_a_key_that_nobody_holds_is_forgotten_also_after_cancellation() -> None:
    locks: KeyedLock[str] = KeyedLock()

    async def wait() -> None:
        async with locks.hold("a"):
            raise AssertionError("never")

    async with locks.hold("a"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(locks) == 1
    del waiting
    assert len(locks) == 0
