"""What the scheduler's cache costs on a large cluster, in a process of its own: `python -m benchmarks.live_scene`.

Everything between the bytes of an API server and the writes of the scheduler is the real thing: client, informers,
feed, live state, `decide` and the applier. CPU is that of the whole process. Prints JSON.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from benchmarks.live_cluster import FakeServer, Shape, chunks, event, node_name, pod, pod_group
from benchmarks.loop_hold import Turns
from bosket.kube.client import Client
from bosket.kube.informer import Informers
from bosket.runtime.clock import SystemClock
from bosket.runtime.events import EventRecorder
from bosket.runtime.service import Environment
from bosket.scheduler.actions import ACTIONS
from bosket.scheduler.configuration.configuration import Configuration
from bosket.scheduler.decide import decide
from bosket.scheduler.io.apply import Applier
from bosket.scheduler.io.feed import Feed
from bosket.scheduler.model.decisions import Decisions
from bosket.scheduler.options import Options
from bosket.scheduler.state.cluster_state import ClusterState

PODS_PATH, GROUPS_PATH = "/api/v1/pods", "/apis/scheduling.run.ai/v2alpha2/podgroups"
CONFIGURATION = Configuration(actions=tuple(ACTIONS))
#: How many events arrive at once, in a storm: what fits into one read of a socket.
PER_CHUNK = 64
#: The loop has a cycle so often while everything changes.
CYCLES_PER_SECOND = 10
REPEAT = 30


def rss_bytes() -> int:
    """Memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class LiveScheduler:
    """The parts of a scheduler between an API server and its decisions."""

    def __init__(self, server: FakeServer) -> None:
        self.server, clock = server, SystemClock()
        client = Client(server)
        options = Options(configuration=CONFIGURATION)
        self.informers = Informers(client)
        self._env = Environment(
            client, self.informers, clock, EventRecorder(client, clock, "bench"), CollectorRegistry()
        )
        self.state = ClusterState(options.state())
        self.feed = Feed(self.informers, self.state)
        self._applier = Applier(
            self._env, self.state, options, changed=lambda: None, evicted=lambda _: None, requested=lambda _: None
        )
        self._decided: object = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(each) for each in (self.informers.run(), self._applier.run(), self._env.events.run())
        ]
        await self.feed.wait_synced()
        yield
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def cycle(self) -> Decisions | None:
        """What the scheduling loop does."""
        snapshot = self.state.snapshot(self._env.clock.now())
        self.feed.looked_at()
        if snapshot is self._decided:
            return None
        self._decided = snapshot
        decisions = decide(snapshot, CONFIGURATION)
        await self._applier.apply(snapshot, decisions)
        return decisions

    def tell(self, path: str, *lines: bytes) -> None:
        self.server.watches[path].put(chunks(lines, PER_CHUNK))

    async def taken_in(self) -> None:
        """Until all that was told is in the state."""
        while not all(watch.is_read for watch in self.server.watches.values()):
            await asyncio.sleep(0)
        await asyncio.sleep(0)


async def cold(nodes: int, pods: int) -> dict[str, Any]:
    """From nothing to the first decision."""
    server = FakeServer(Shape(nodes, pods))
    gc.collect()
    before, began = rss_bytes(), time.process_time()
    scheduler = LiveScheduler(server)
    async with Turns() as turns, scheduler.running():
        synced = time.process_time() - began
        listing_hold = turns.longest_seconds
        await scheduler.cycle()
        cpu = time.process_time() - began
        gc.collect()
        held = rss_bytes() - before
    return {
        "cpu_s": cpu,
        "synced_s": synced,
        "us_per_pod": cpu * 1e6 / pods,
        "kb_per_pod": held / 1024 / pods,
        "listing_hold_ms": listing_hold * 1e3,
    }


async def events(nodes: int, pods: int) -> dict[str, Any]:
    """Single events, each with its cycle."""
    shape = Shape(nodes, pods)
    scheduler = LiveScheduler(FakeServer(shape))
    version = 10

    def changed(member: int, phase: str) -> None:
        nonlocal version
        version += 1
        scheduler.tell(PODS_PATH, event("MODIFIED", pod(7, member, node=node_name(7), phase=phase), version))

    def came(number: int) -> None:
        """A job of one pod, for which there is room."""
        nonlocal version
        version += 2
        gang = shape.gangs + number
        scheduler.tell(GROUPS_PATH, event("ADDED", pod_group(gang, 1), version))
        scheduler.tell(PODS_PATH, event("ADDED", pod(gang, 0), version + 1))

    figures: dict[str, Any] = {}
    async with scheduler.running():
        await scheduler.cycle()
        gc.collect()
        gc.freeze()

        async def measure(name: str, change: Callable[[int], None], *, binds: int = 0) -> None:
            spent = []
            for number in range(REPEAT):
                change(number)
                await asyncio.sleep(0)
                began = time.process_time()
                await scheduler.taken_in()
                decisions = await scheduler.cycle()
                spent.append((time.process_time() - began) * 1e3)
                if decisions is None or len(decisions.binds) != binds:
                    raise RuntimeError(f"{name}: {decisions and len(decisions.binds)} binds, {binds} were expected")
                for _ in range(20):  # what was decided is written
                    await asyncio.sleep(0)
            spent.sort()
            figures[name] = {"cpu_ms": spent[len(spent) // 2], "worst_ms": spent[-1]}

        await measure("a pod ends, or is started again", lambda n: changed(3, ("Succeeded", "Running")[n % 2]))
        await measure("a job of one pod comes and is placed", came, binds=1)
    return figures


async def storm(nodes: int, pods: int, events_per_second: int, seconds: int) -> dict[str, Any]:
    """Statuses of running pods change all over the cluster. CPU seconds are taken for seconds of a clock: what costs
    more CPU than the time in which it comes would pile up."""
    shape = Shape(nodes, pods)
    scheduler = LiveScheduler(FakeServer(shape))
    per_slot = events_per_second // CYCLES_PER_SECOND
    template = [_moving_event(shape, number) for number in range(per_slot * 2)]
    slots = seconds * CYCLES_PER_SECOND
    worst_slot = longest_cycle = spent = 0.0
    version, peak = 10, 0
    async with scheduler.running():
        await scheduler.cycle()
        gc.collect()
        began_with = rss_bytes()
        async with Turns() as turns:
            await asyncio.sleep(0)
            turns.longest_seconds = 0.0
            for slot in range(slots):
                lines = []
                for before, after in template[per_slot * (slot % 2) :][:per_slot]:
                    version += 1
                    lines.append(b"%s%d%s" % (before, version, after))
                scheduler.tell(PODS_PATH, *lines)
                del lines
                began = time.process_time()
                await scheduler.taken_in()
                longest_before_cycle = turns.longest_seconds
                cycle_began = time.process_time()
                await scheduler.cycle()
                ended = time.process_time()
                longest_cycle = max(longest_cycle, ended - cycle_began)
                worst_slot = max(worst_slot, ended - began)
                spent += ended - began
                peak = max(peak, rss_bytes())
                await asyncio.sleep(0)
                # The cycle has a row of its own. `turns` sees it in the pauses of `apply`, too, not only here.
                turns.longest_seconds = longest_before_cycle
        gc.collect()
    return {
        "events": per_slot * slots,
        "us_per_event": spent * 1e6 / (per_slot * slots),
        "load": spent / seconds,
        "worst_slot_ms": worst_slot * 1e3,
        "hold_ms": turns.longest_seconds * 1e3,
        "cycle_ms": longest_cycle * 1e3,
        "grown_mb": (peak - began_with) / 2**20,
        "left_mb": (rss_bytes() - began_with) / 2**20,
    }


def _moving_event(shape: Shape, number: int) -> tuple[bytes, bytes]:
    """An event about one of the pods, around its version: every third changes its phase, the rest nothing."""
    gang, member = divmod(number * 37 % shape.pods, shape.gang)
    document = pod(gang, member, node=node_name(gang % shape.nodes))
    if number % 3 == 0:
        document["status"]["phase"] = "Succeeded" if number % 2 else "Running"
    before, after = event("MODIFIED", document, 987654321012345).split(b"987654321012345")
    return before, after


SCENES: dict[str, Callable[..., Any]] = {"cold": cold, "events": events, "storm": storm}

if __name__ == "__main__":
    scene, *numbers = sys.argv[1:]
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(SCENES[scene](*map(int, numbers)))))
