"""No end of a Job's pod is missed, and none is counted twice: pods stay until they are counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from bosket.api.batch import (
    Job,
    JobSpec,
    JobStatus,
    PodFailurePolicy,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    UncountedTerminatedPods,
)
from bosket.api.core import Node, Pod
from bosket.api.object import ObjectMeta
from bosket.embedded.controllers.job_tracking import FINALIZER, Count
from bosket.embedded.node import NodeShape
from bosket.embedded.node_lifecycle import NodeLifecycle
from bosket.kube.errors import NotFound
from tests.embedded.wires import LateWatch, Unreliable
from tests.embedded.workloads import NODE, Workloads, condition, fail, template, workloads

pytestmark = pytest.mark.looptime

INDEX = "batch.kubernetes.io/job-completion-index"
OVERLOOKS_DISRUPTIONS = PodFailurePolicy(
    rules=(
        PodFailurePolicyRule(
            action="Ignore",
            onPodConditions=(PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True"),),
        ),
    )
)


def job(name: str = "j", *, node: str | None = NODE, run: str = "10s", stop: str = "", **spec: Any) -> Job:
    pod = template(restart="Never", run_duration=run, simulation={"stop_delay": stop} if stop else None)
    if node is None:
        pod = replace(pod, spec=replace(pod.spec, nodeName=""))
    return Job(metadata=ObjectMeta(name=name, namespace="default"), spec=JobSpec(template=pod, **spec))


async def ended(world: Workloads, seconds: float = 3600) -> Job:
    async def holds() -> bool:
        found = await world.get(Job, "j")
        return condition(found, "Complete") is not None or condition(found, "Failed") is not None

    await world.until(holds, seconds)
    return await world.get(Job, "j")


async def are_running(world: Workloads, count: int) -> None:
    async def holds() -> bool:
        return len(await world.running()) == count

    await world.until(holds)


async def evict(world: Workloads, pod: Pod) -> None:
    await world.client.evict(pod)


async def test_pods_hold_the_finalizer_until_they_are_counted() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=2))
        await are_running(world, 2)
        assert [pod.metadata.finalizers for pod in await world.pods()] == [(FINALIZER,)] * 2
        done = await ended(world)
        assert [pod.metadata.finalizers for pod in await world.pods()] == [(), ()]
        assert done.status.succeeded == 2
        assert done.status.uncountedTerminatedPods in (None, UncountedTerminatedPods())


@pytest.mark.parametrize("wrap", [lambda inner: inner, LateWatch, Unreliable])
async def test_an_evicted_pod_is_overlooked_where_the_policy_says_so_however_fast_it_went(wrap: Any) -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(wrap):
        await world.client.create(job(backoffLimit=0, podFailurePolicy=OVERLOOKS_DISRUPTIONS))
        await are_running(world, 1)
        await evict(world, (await world.pods())[0])
        done = await ended(world)
        assert condition(done, "Complete") is not None
        assert (done.status.succeeded, done.status.failed) == (1, 0)


async def test_a_pod_that_is_evicted_before_it_has_a_node_is_overlooked_too() -> None:
    async with workloads() as world:
        await world.client.create(job(node=None, backoffLimit=0, podFailurePolicy=OVERLOOKS_DISRUPTIONS))
        await asyncio.sleep(1)
        (first,) = await world.pods()
        await evict(world, first)
        await asyncio.sleep(3)
        (second,) = await world.pods()
        assert second.metadata.uid != first.metadata.uid
        assert (await world.get(Job, "j")).status.failed == 0


async def test_a_pod_whose_node_is_lost_is_overlooked_too() -> None:
    world = Workloads()
    async with world.with_node(), world.controlling():
        environment = world.environment()
        async with world.run(environment, [NodeLifecycle(environment, shape=NodeShape())]):
            await world.client.create(job(backoffLimit=0, podFailurePolicy=OVERLOOKS_DISRUPTIONS))
            await are_running(world, 1)
            (first,) = await world.pods()
            await world.client.delete(Node, NODE)

            async def is_gone() -> bool:
                return all(pod.metadata.uid != first.metadata.uid for pod in await world.pods())

            await world.until(is_gone)
            assert (await world.get(Job, "j")).status.failed == 0


async def test_what_happens_while_no_controller_runs_is_counted_exactly() -> None:
    world = Workloads()
    async with world.with_node():
        async with world.controlling():
            await world.client.create(job(parallelism=3, completions=5, run="20s", backoffLimit=9))
            await are_running(world, 3)
        first, second, _ = await world.pods()
        await fail(world, first)
        await world.client.delete(Pod, first.metadata.name, "default")
        await world.client.delete(Pod, second.metadata.name, "default")
        await asyncio.sleep(60)  # the third succeeds meanwhile
        for pod in await world.pods():
            await world.client.delete(Pod, pod.metadata.name, "default")
        async with world.controlling():
            done = await ended(world)
            assert (done.status.succeeded, done.status.failed) == (5, 2)
            assert len(await world.events("SuccessfulCreate")) == 7


async def test_controllers_that_die_again_and_again_count_each_end_once() -> None:
    world = Workloads()
    async with world.with_node():
        await world.client.create(job(parallelism=4, completions=12, run="2s", backoffLimit=50))
        for turn in range(60):
            async with world.controlling(Unreliable):
                await asyncio.sleep(0.05 + 0.07 * (turn % 11))
            running = await world.running()
            if turn % 5 == 1 and running:
                await world.client.delete(Pod, running[0].metadata.name, "default")
        async with world.controlling():
            done = await ended(world)
        created = await world.events("SuccessfulCreate")
        assert done.status.succeeded == 12
        assert done.status.failed <= 12
        assert len(created) <= 12 + done.status.failed
        assert not any(pod.metadata.finalizers for pod in await world.pods())


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_pods_of_a_deleted_job_go_with_it(policy: str) -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=2))
        await are_running(world, 2)
        await world.client.delete(Job, "j", "default", propagation=policy)
        await asyncio.sleep(20)
        assert await world.pods() == []
        with pytest.raises(NotFound):
            await world.get(Job, "j")


async def test_pods_that_a_deleted_job_leaves_behind_are_free_to_go() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=2, run="1h"))
        await are_running(world, 2)
        await world.client.delete(Job, "j", "default", propagation="Orphan")
        await asyncio.sleep(5)
        assert [pod.metadata.finalizers for pod in await world.running()] == [(), ()]


async def test_a_pod_on_its_way_out_is_replaced_at_once_or_when_it_has_ended_as_the_job_says() -> None:
    async with workloads() as world:
        for name, policy in (("at-once", "TerminatingOrFailed"), ("ended", "Failed")):
            spec: dict[str, Any] = {"podReplacementPolicy": policy, "backoffLimit": 9}
            await world.client.create(job(name, run="1h", stop="2s", **spec))
        await are_running(world, 2)
        for pod in await world.pods():
            await world.client.delete(Pod, pod.metadata.name, "default")
        await asyncio.sleep(1)
        at_once, waiting = [(await world.get(Job, name)).status for name in ("at-once", "ended")]
        assert (at_once.failed, at_once.terminating) == (1, 1)
        assert (waiting.failed, waiting.terminating) == (0, 1)
        await asyncio.sleep(3)
        waiting = (await world.get(Job, "ended")).status
        assert (waiting.failed, waiting.terminating) == (1, 0)


async def test_how_often_an_index_has_failed_outlives_its_pods_and_the_controller() -> None:
    spec: dict[str, Any] = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 2}
    world = Workloads()
    async with world.with_node():
        await world.client.create(job(**spec, run="1h"))
        for attempt in range(3):
            async with world.controlling():
                await are_running(world, 2)
            (pod,) = [pod for pod in await world.running() if pod.metadata.annotations[INDEX] == "1"]
            assert pod.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == str(attempt)
            await fail(world, pod)
            await world.client.delete(Pod, pod.metadata.name, "default")
        async with world.controlling():
            await asyncio.sleep(60)
            found = await world.get(Job, "j")
            assert found.status.failedIndexes == "1"
            assert found.status.failed == 3
            assert len(await world.running()) == 1


def test_more_pods_than_the_list_holds_are_counted_in_turns() -> None:
    pods = [
        Pod(metadata=ObjectMeta(name=f"p{number}", uid=f"u{number}", finalizers=(FINALIZER,))) for number in range(1200)
    ]
    found = Job(status=JobStatus(succeeded=3))
    first = Count.settled(found, pods).add(pods[:1000], pods[1000:])
    assert (len(first.uncounted.succeeded), len(first.uncounted.failed)) == (500, 0)
    left = pods[500:]
    written = Job(status=JobStatus(succeeded=first.succeeded, uncountedTerminatedPods=first.uncounted))
    second = Count.settled(written, left).add(pods[500:1000], pods[1000:])
    assert (second.succeeded, len(second.uncounted.succeeded), len(second.uncounted.failed)) == (503, 500, 0)
