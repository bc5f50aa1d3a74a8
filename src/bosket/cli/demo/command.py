"""Runs the story: starts the cluster, submits, watches, checks, and says what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from bosket.cli.output import CommandError, Flag, flush_line

if TYPE_CHECKING:
    from bosket.cli.demo.display import Display
    from bosket.cli.demo.observation import Observation
    from bosket.embedded.cluster import EmbeddedCluster
    from bosket.runtime.clock import Clock

_REFRESH_SECONDS = 0.1


def demo(
    *,
    nodes: Annotated[int, Parameter(validator=Number(gte=5, lte=1000))] = 8,
    time_limit: Annotated[float, Parameter(validator=Number(gt=0))] = 60.0,
    json: Flag = False,
) -> None:
    """Watch three teams share a cluster: gangs that wait as a whole, a queue with a limit, more work than fits.

    Takes about 15 seconds. Exits with 0 if every job ran and no promise was broken, with 1 and the reason if not.

    Parameters
    ----------
    nodes
        How many simulated nodes of 8 GPUs; the story is made for 8.
    time_limit
        Give up after that many seconds.
    json
        Print the outcome as a JSON object instead of progress and tables.
    """
    from bosket.cli.demo.display import live_display, print_summary, silent_display
    from bosket.cli.demo.observation import outcome
    from bosket.runtime.logs import configure_logging

    configure_logging("human", "ERROR")
    if not json:
        flush_line(f"starting an embedded cluster: {nodes} nodes with 8 GPUs each")
    with silent_display() if json else live_display() as display:
        observation, seconds = asyncio.run(play(nodes, time_limit, display))
    if json:
        import msgspec

        flush_line(msgspec.json.encode(outcome(observation, seconds)).decode())
    else:
        print_summary(observation, seconds)
    judge(observation, time_limit)


async def play(
    nodes: int, time_limit: float, display: Display, clock: Clock | None = None
) -> tuple[Observation, float]:
    """Run the story to its end or to the time limit; what was seen, and how long it took."""
    from bosket.cli.demo import story
    from bosket.cli.demo.observation import Observation
    from bosket.embedded.cluster import EmbeddedCluster
    from bosket.embedded.node import NodeShape

    shape = NodeShape(gpus=story.GPUS_PER_NODE)
    async with EmbeddedCluster(nodes=nodes, shape=shape, racks=2, clock=clock) as cluster:
        await cluster.wait_ready()
        began = cluster.clock.monotonic()

        def seconds() -> float:
            return cluster.clock.monotonic() - began

        gpus_by_node = {f"node-{index:03d}": story.GPUS_PER_NODE for index in range(nodes)}
        observation = Observation(story.GANGS, story.TEAMS, gpus_by_node)
        async with _watching(cluster, observation, seconds):
            submitting = asyncio.create_task(_submit(cluster, observation, seconds))
            try:
                while not observation.all_finished and seconds() < time_limit:
                    display.show(observation, seconds())
                    await cluster.clock.sleep(_REFRESH_SECONDS)
                    if submitting.done():
                        submitting.result()
            finally:
                submitting.cancel()
            display.show(observation, seconds())
            return observation, seconds()


async def _submit(cluster: EmbeddedCluster, observation: Observation, seconds: Callable[[], float]) -> None:
    """Everything at its time."""
    from bosket.cli.demo import story

    client = cluster.client("demo")
    await client.create(story.namespace())
    for queue in story.queues():
        await client.create(queue)
    await client.create(story.deployment(story.SERVER))
    for gang in sorted(story.GANGS, key=lambda gang: gang.submit_at_seconds):
        await cluster.clock.sleep(max(0.0, gang.submit_at_seconds - seconds()))
        observation.submitted(gang.name, seconds())
        await client.create(story.job(gang))


@asynccontextmanager
async def _watching(
    cluster: EmbeddedCluster, observation: Observation, seconds: Callable[[], float]
) -> AsyncIterator[None]:
    """Feed the observation with what any user of the API server can see, as long as the block runs."""
    from bosket.api.batch import Job
    from bosket.api.core import Pod
    from bosket.cli.demo.story import NAMESPACE
    from bosket.kube.informer import Change, Informers

    def job_changed(change: Change[Job]) -> None:
        if change.new is not None and change.new.metadata.name in observation.gangs:
            for condition in change.new.status.conditions:
                if condition.type in ("Complete", "Failed") and condition.status == "True":
                    observation.finished(change.new.metadata.name, seconds(), failed=condition.type == "Failed")

    informers = Informers(cluster.client("demo"))
    informers.of(Pod, namespace=NAMESPACE).subscribe(
        lambda change: observation.pod_changed(change.old, change.new, seconds())
    )
    informers.of(Job, namespace=NAMESPACE).subscribe(job_changed)
    task = asyncio.create_task(informers.run())
    try:
        await informers.wait_synced()
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def judge(observation: Observation, time_limit: float) -> None:
    """Raise what didn't go as it should."""
    unfinished = [name for name, record in observation.gangs.items() if record.finished_at is None]
    if unfinished:
        raise CommandError(f"after {time_limit:.0f} s these jobs had not finished: {', '.join(unfinished)}")
    failed = [name for name, record in observation.gangs.items() if record.failed]
    if failed:
        raise CommandError(f"these jobs failed: {', '.join(failed)}")
    broken = [violation for promise in observation.promises() for violation in promise.violations]
    if broken:
        raise CommandError(f"a promise was broken: {'; '.join(broken)}")
