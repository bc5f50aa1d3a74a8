"""`python -m benchmarks chaos`: a storm of load and faults for some minutes, then rest, then judgement."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final

from benchmarks.chaos.fault import Faults
from benchmarks.chaos.load import Load
from benchmarks.chaos.restart import Restarts, retried
from benchmarks.chaos.watcher import Watcher
from benchmarks.chaos.world import enter_world
from benchmarks.report import Column, Report, number, progress

SERVERS: Final = ("embedded", "real")
_COLUMNS: Final = (
    Column("server", "server"),
    Column("minutes", "minutes", number(1)),
    Column("actions", "actions", number()),
    Column("refused", "refused", number()),
    Column("faults", "faults", number()),
    Column("restarts", "restarts after evictions", number()),
    Column("bindings", "bindings", number()),
    Column("evictions", "guarded evictions", number()),
    Column("broken", "broken", number()),
)
#: The cluster has come to rest when nothing has changed for so long, or is judged as it is after so long.
_QUIET_SECONDS: Final = 20.0
_REST_SECONDS: Final = 420.0


def run(minutes: float, servers: tuple[str, ...], seed: int) -> Report:
    report = Report(f"Chaos, seed {seed}", _COLUMNS)
    for server in servers:
        asyncio.run(_run_on(server, minutes, Random(seed), report))
    return report


async def _run_on(server: str, minutes: float, random: Random, report: Report) -> None:
    async with enter_world(server) as world:
        watcher = Watcher(world.kubeconfig)
        load, faults = Load(world.client, random), Faults(world, random)
        restarts = Restarts(world, watcher)
        await retried(load.prepare)
        await retried(restarts.prepare)
        started = time.monotonic()
        end = started + minutes * 60
        await asyncio.gather(
            _repeat(end, load.act, lambda: random.uniform(0.2, 2.0)),
            _repeat(end, faults.strike, lambda: random.uniform(3.0, 15.0)),
            _repeat(end, restarts.reclaim_once, lambda: 1.0),
            _tell(end, watcher, load, faults),
        )
        progress(f"{server}: coming to rest")
        await faults.restart_dead()
        await _rest(watcher, load)
        with watcher.lock:
            judge = watcher.judge
            broken = [*judge.broken, *judge.at_rest(), *faults.deaths, *restarts.broken]
            counts = Counter(judge.counts)
        await retried(load.clear)
        await _empty(watcher)
        with watcher.lock:
            broken += [f"left behind after everything was deleted: {text}" for text in _left_behind(watcher)]
        watcher.close()
        report.rows.append(
            {
                "server": server,
                "minutes": (time.monotonic() - started) / 60,
                "actions": load.done.total(),
                "refused": load.refused.total(),
                "faults": faults.done.total(),
                "restarts": restarts.done,
                "bindings": counts["bindings"],
                "evictions": counts["guarded evictions"],
                "broken": len(broken),
            }
        )
        report.broken += [f"{server}: {text}" for text in broken]
        report.notes.append(f"{server}: {_told(load.done)}; faults: {_told(faults.done)}; seen: {_told(counts)}.")
        report.notes += [
            f"{server}: {name} refused {load.refused[name]} times, the last time: {reason}"
            for name, reason in load.reasons.items()
        ]
        report.notes.append(f"{server}: logs of all processes are in {world.folder}.")


async def _repeat(end: float, act: Callable[[], Awaitable[Any]], pause: Callable[[], float]) -> None:
    while time.monotonic() < end:
        await act()
        await asyncio.sleep(pause())


async def _tell(end: float, watcher: Watcher, load: Load, faults: Faults) -> None:
    told = 0
    while time.monotonic() < end:
        await asyncio.sleep(min(60.0, max(0.1, end - time.monotonic())))
        with watcher.lock:
            broken, pods = list(watcher.judge.broken), len(watcher.judge.pods)
        left = max(0.0, end - time.monotonic()) / 60
        done = f"{load.done.total()} actions, {faults.done.total()} faults"
        progress(f"{left:.0f} min left: {pods} pods, {done}, {len(broken)} broken")
        for each in broken[told:]:
            progress(f"broken: {each}")
        told = len(broken)


async def _rest(watcher: Watcher, load: Load) -> None:
    """Until there is room for everybody and nothing changes any more."""
    await retried(load.make_room)
    until = time.monotonic() + _REST_SECONDS
    while time.monotonic() < until and not (watcher.quiet_seconds() > _QUIET_SECONDS and not _waiting(watcher)):
        await asyncio.sleep(1.0)


async def _empty(watcher: Watcher) -> None:
    until = time.monotonic() + _REST_SECONDS
    while time.monotonic() < until:
        with watcher.lock:
            if not _left_behind(watcher):
                return
        await asyncio.sleep(1.0)


def _waiting(watcher: Watcher) -> bool:
    with watcher.lock:
        return bool(watcher.judge.at_rest())


def _left_behind(watcher: Watcher) -> list[str]:
    """Pods and pod groups that outlive their workloads, reservation pods among them."""
    pods = [f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in watcher.judge.pods.values()]
    return [*pods, *(f"pod group {name}" for name in watcher.judge.groups)]


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing"
