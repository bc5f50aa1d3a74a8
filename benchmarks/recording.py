"""The flight recorder: what it costs a large cluster, what kills lose, and whether a busy cluster's cycles come out the
same again.
"""

from __future__ import annotations

import asyncio
import math
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.report import Column, Report, number, progress
from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.embedded.cluster import EmbeddedCluster
from bosket.embedded.node import NodeShape
from bosket.kube.errors import KubeError
from bosket.scheduler.answers.flight_replay import Replay
from bosket.scheduler.options import Options
from bosket.scheduler.recording.flight.reader import FlightRecording
from bosket.scheduler.recording.flight.writer import Bounds
from bosket.testing.build import node, pod, queue
from bosket.testing.cluster import NOW
from tests.e2e.manifest import job
from tests.flight.recorded_run import RecordedRun
from tests.flight.test_killed_recorders import seconds_lost

#: Of the cluster whose cycles are timed: nodes with 8 running pods each, and jobs of which one comes in each cycle.
NODES: Final = 5_000
CYCLES: Final = 400
STRETCH: Final = 20
MOST_BYTES, MOST_SHARE = 2_000, 0.03
KILLS: Final = 100
LOST_SECONDS: Final = 1.0
#: Of the busy cluster.
BUSY_CYCLES: Final = 10_000
BUSY_NODES: Final = 6
QUEUES: Final = ("red", "blue", "green")
#: Nobody waits longer for the busy cluster's cycles.
PATIENCE_SECONDS: Final = 1_800.0

COLUMNS = (Column("what", "what"), Column("value", "figure", number(3)), Column("limit", "promised", number(3)))


def run() -> Report:
    report = Report("Flight recorder", COLUMNS)
    _measure_cost(report)
    _measure_kills(report)
    _measure_replay(report)
    return report


def _row(report: Report, what: str, value: float, limit: float, *, holds: bool) -> None:
    report.rows.append({"what": what, "value": value, "limit": limit})
    report.expect(holds, f"{what}: {value:.3f}, promised {limit:g}")


def _measure_cost(report: Report) -> None:
    progress(f"recording, {NODES} nodes")
    with TemporaryDirectory() as folder:
        run = RecordedRun(Path(folder), *(node(f"n{number}", gpus=8) for number in range(NODES)), queue("q"))
        for number in range(NODES * 8):
            run.state.put(pod(f"p{number}").gpu(1).running_on(f"n{number // 8}").build())
        run.cycle(NOW)
        run.writer.flush()
        written = run.writer.written_bytes
        costs = {True: 0.0, False: 0.0}
        for number in range(2 * CYCLES):
            # In stretches, because what is recorded is written a little later; alternating, because clocks drift.
            is_recorded = number // STRETCH % 2 == 0
            run.state.drop(pod(f"p{number}").build())
            run.state.put(pod(f"q{number}").gpu(1).running_on(f"n{number // 8}").build())
            began = time.process_time()
            if is_recorded:
                run.cycle(NOW + number)
                if number % STRETCH == STRETCH - 1:
                    run.writer.flush()
            else:
                run.decide(NOW + number)
            costs[is_recorded] += time.process_time() - began
        plain, recorded = costs[False], costs[True]
        run.recorder.close()
        share = recorded / plain - 1
        _row(report, "share of a cycle's CPU", share, MOST_SHARE, holds=share <= MOST_SHARE)
        # Half of the cycles are recorded, with the changes of all.
        size = (run.writer.written_bytes - written) / CYCLES / 2
        _row(report, "bytes of a cycle with one pod more and one less", size, MOST_BYTES, holds=size <= MOST_BYTES)


def _measure_kills(report: Report) -> None:
    dice, lost = Random(1), 0.0
    with TemporaryDirectory() as folder:
        for kill in range(KILLS):
            progress(f"kill {kill + 1} of {KILLS}")
            lost = max(lost, seconds_lost(Path(folder) / str(kill), dice.randrange(20, 400)))
    _row(report, f"most that {KILLS} kills lost, in seconds", lost, LOST_SECONDS, holds=lost <= LOST_SECONDS)


def _measure_replay(report: Report) -> None:
    progress(f"{BUSY_CYCLES} cycles of a busy cluster")
    with TemporaryDirectory() as folder:
        asyncio.run(_keep_busy(Path(folder)))
        recording, replay = FlightRecording(next(Path(folder).iterdir())), Replay()
        began = time.process_time()
        different = 0
        for each in replay.run(recording, 0.0, math.inf):
            different += not each.is_same
            if replay.replayed % 500 == 0:
                progress(f"{replay.replayed} cycles replayed, {different} of them differently")
        seconds = time.process_time() - began
        size = sum(path.stat().st_size for path in recording.files())
    enough = replay.replayed >= BUSY_CYCLES
    _row(report, "replayed cycles of a busy cluster", replay.replayed, BUSY_CYCLES, holds=enough)
    _row(report, "of them decided differently", different, 0, holds=different == 0)
    report.notes.append(
        f"{replay.left_out} cycles without an outcome; {size / replay.replayed:.0f} bytes and "
        f"{1000 * seconds / replay.replayed:.1f} ms of CPU to replay a cycle."
    )


async def _keep_busy(folder: Path) -> None:
    """Jobs of all sizes come, end and are deleted until so many cycles are recorded."""
    options = {"scheduler": Options(recording=folder, recording_bounds=Bounds(most_bytes=1 << 30))}
    dice, until = Random(7), time.monotonic() + PATIENCE_SECONDS
    async with EmbeddedCluster(nodes=BUSY_NODES, shape=NodeShape(gpus=8), service_options=options) as cluster:
        await cluster.wait_ready()
        client = cluster.client()
        for name in QUEUES:
            await client.create(_queue(name))
        count = 0
        while time.monotonic() < until:
            count += 1
            duration = f"{dice.choice((500, 1000, 2000, 4000))}ms"
            made = job(
                f"j{count}",
                pods=dice.choice((1, 1, 1, 2, 4)),
                gpus=dice.choice((1, 1, 2, 4)),
                queue=dice.choice(QUEUES),
                run_duration=duration,
            )
            await client.create(made, "default")
            if count % 50 == 0:
                await _clear(client)
                if _recorded(folder) >= BUSY_CYCLES:
                    return
            await asyncio.sleep(dice.choice((0.01, 0.05, 0.2)))


def _queue(name: str) -> dict[str, Any]:
    resources = {"gpu": {"quota": BUSY_NODES * 8 // len(QUEUES), "overQuotaWeight": 1, "limit": -1}}
    resources |= {each: {"quota": -1, "overQuotaWeight": 1, "limit": -1} for each in ("cpu", "memory")}
    spec = {"resources": resources}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


async def _clear(client: Any) -> None:
    """Deletes Jobs that have ended."""
    for each in (await client.list(Job, "default")).items:
        if each.status is not None and each.status.completionTime:
            try:
                await client.delete(Job, each.metadata.name, "default")
                await client.delete_collection(Pod, "default", labels=f"job-name={each.metadata.name}")
            except KubeError:
                continue


def _recorded(folder: Path) -> int:
    """How many cycles are recorded, by the last one's number."""
    return max((FlightRecording(part).at(math.inf).cycle.number for part in folder.iterdir()), default=0)
