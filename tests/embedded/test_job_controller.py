"""Jobs run their pods to completion, as Kubernetes' own controller would."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from bosket.api.batch import (
    Job,
    JobSpec,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from bosket.api.core import Pod
from bosket.api.object import ObjectMeta
from bosket.api.time import parse_time
from bosket.kube.errors import NotFound
from tests.embedded.wires import LateWatch, Unreliable
from tests.embedded.workloads import Workloads, condition, fail, template, workloads

pytestmark = pytest.mark.looptime


def job(name: str = "j", *, simulation: dict[str, str] | None = None, restart: str = "Never", **spec: Any) -> Job:
    pod = template(restart=restart, simulation=simulation or {"run_duration": "10s"})
    return Job(metadata=ObjectMeta(name=name, namespace="default"), spec=JobSpec(template=pod, **spec))


async def ended(world: Workloads, name: str = "j", seconds: float = 3600) -> Job:
    async def holds() -> bool:
        found = await world.get(Job, name)
        return condition(found, "Complete") is not None or condition(found, "Failed") is not None

    await world.until(holds, seconds)
    return await world.get(Job, name)


async def test_a_job_runs_one_pod_and_completes() -> None:
    async with workloads() as world:
        await world.client.create(job())
        await asyncio.sleep(5)
        started = await world.get(Job, "j")
        assert (started.status.active, started.status.ready, started.status.succeeded) == (1, 1, 0)
        (pod,) = await world.pods()
        assert pod.metadata.name.startswith("j-")
        assert pod.metadata.labels["batch.kubernetes.io/job-name"] == pod.metadata.labels["job-name"] == "j"
        uid = started.metadata.uid
        assert pod.metadata.labels["batch.kubernetes.io/controller-uid"] == uid
        (owner,) = pod.metadata.ownerReferences
        assert (owner.kind, owner.uid, owner.controller, owner.blockOwnerDeletion) == ("Job", uid, True, True)
        done = await ended(world)
        assert (done.status.active, done.status.succeeded, done.status.failed) == (0, 1, 0)
        for type in ("SuccessCriteriaMet", "Complete"):
            assert condition(done, type).reason == "CompletionsReached"
        assert done.status.startTime is not None
        assert done.status.completionTime is not None
        assert parse_time(done.status.completionTime) - parse_time(done.status.startTime) in (10, 11)
        assert await world.events("Completed") == ["Job completed"]
        assert await world.events("SuccessfulCreate") == [f"Created pod: {pod.metadata.name}"]


async def test_no_more_than_parallelism_run_at_once_and_no_more_than_completions_in_all() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=3, completions=7))
        most = 0

        async def holds() -> bool:
            nonlocal most
            most = max(most, len(await world.running()))
            return condition(await world.get(Job, "j"), "Complete") is not None

        await world.until(holds)
        assert most == 3
        assert len(await world.pods()) == 7
        assert (await world.get(Job, "j")).status.succeeded == 7
        assert world.clock.monotonic() < 40


async def test_a_work_queue_is_done_when_one_pod_succeeded_and_the_others_have_ended() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=3))
        done = await ended(world)
        assert done.status.succeeded == 3
        assert len(await world.pods()) == 3


async def test_an_indexed_job_runs_every_index_once_and_tells_its_pods_which() -> None:
    async with workloads() as world:
        await world.client.create(job(completionMode="Indexed", parallelism=2, completions=5))
        done = await ended(world)
        assert (done.status.completedIndexes, done.status.succeeded) == ("0-4", 5)
        pods = await world.pods()
        key = "batch.kubernetes.io/job-completion-index"
        assert [pod.metadata.annotations[key] for pod in pods] == ["0", "1", "2", "3", "4"]
        assert [pod.metadata.labels[key] for pod in pods] == ["0", "1", "2", "3", "4"]
        assert [pod.spec.hostname for pod in pods] == [f"j-{index}" for index in range(5)]
        assert pods[3].metadata.name.startswith("j-3-")
        (variable,) = pods[0].spec.containers[0].env
        assert variable.name == "JOB_COMPLETION_INDEX"
        assert variable.valueFrom is not None
        assert variable.valueFrom.fieldRef is not None
        assert variable.valueFrom.fieldRef.fieldPath == f"metadata.labels['{key}']"


async def test_failures_are_tried_again_with_growing_pauses_until_the_limit() -> None:
    async with workloads() as world:
        await world.client.create(job(simulation={"run_duration": "1s", "exit_code": "3"}, backoffLimit=3))
        done = await ended(world)
        failed = condition(done, "Failed")
        assert (failed.reason, failed.message) == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )
        assert condition(done, "FailureTarget").reason == "BackoffLimitExceeded"
        assert (done.status.failed, done.status.completionTime) == (4, None)
        starts = sorted(parse_time(pod.metadata.creationTimestamp or "") for pod in await world.pods())
        pauses = [later - earlier for earlier, later in pairwise(starts)]
        assert [round((pause - 1) / 10) for pause in pauses] == [1, 2, 4]


async def test_when_a_job_fails_its_running_pods_end_and_count_as_failed() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=3, completions=3, backoffLimit=0, simulation={"run_duration": "1h"}))
        await world.until(lambda: _are_running(world, 3))
        await fail(world, (await world.pods())[0])
        done = await ended(world, seconds=30)
        assert (done.status.active, done.status.failed, done.status.terminating) == (0, 3, 0)
        assert len(await world.running()) == 0


async def test_the_job_is_failed_only_when_its_last_pod_is_gone() -> None:
    async with workloads() as world:
        slow = {"run_duration": "1h", "stop_delay": "2s"}
        await world.client.create(job(parallelism=2, completions=2, backoffLimit=0, simulation=slow))
        await world.until(lambda: _are_running(world, 2))
        await fail(world, (await world.pods())[0])
        await asyncio.sleep(1)
        failing = await world.get(Job, "j")
        assert condition(failing, "FailureTarget").status == "True"
        assert condition(failing, "Failed") is None
        assert (failing.status.active, failing.status.terminating) == (0, 1)
        await ended(world, seconds=5)


async def test_a_deadline_ends_a_job_that_takes_too_long() -> None:
    async with workloads() as world:
        await world.client.create(job(simulation={"run_duration": "1h"}, activeDeadlineSeconds=30))
        done = await ended(world)
        assert condition(done, "Failed").reason == "DeadlineExceeded"
        assert 30 <= world.clock.monotonic() < 35
        assert done.status.failed == 1


async def test_suspension_takes_the_pods_away_and_resuming_begins_anew_without_counting_failures() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=2, suspend=True))
        await asyncio.sleep(5)
        suspended = await world.get(Job, "j")
        assert (await world.pods(), suspended.status.startTime) == ([], None)
        assert condition(suspended, "Suspended").status == "True"
        await set_suspended(world, False)
        await world.until(lambda: _are_running(world, 2))
        await set_suspended(world, True)
        await asyncio.sleep(5)
        assert await world.pods() == []
        assert (await world.get(Job, "j")).status.failed == 0
        await set_suspended(world, False)
        done = await ended(world)
        assert (done.status.succeeded, done.status.failed) == (2, 0)
        assert condition(done, "Suspended").status == "False"
        assert condition(done, "Complete") is not None


async def test_a_finished_job_goes_when_its_time_to_live_is_over_and_takes_its_pods_along() -> None:
    async with workloads() as world:
        await world.client.create(job(ttlSecondsAfterFinished=60))
        await ended(world)
        await asyncio.sleep(55)
        await world.get(Job, "j")
        await asyncio.sleep(10)
        with pytest.raises(NotFound):
            await world.get(Job, "j")
        assert await world.pods() == []


async def test_a_pod_that_somebody_deletes_counts_as_failed_and_is_replaced_after_the_back_off() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=2, simulation={"run_duration": "30s"}))
        await world.until(lambda: _are_running(world, 2))
        victim, other = await world.pods()
        await world.client.delete(Pod, victim.metadata.name, "default")
        await asyncio.sleep(5)
        assert [pod.metadata.name for pod in await world.running()] == [other.metadata.name]
        done = await ended(world)
        assert (done.status.succeeded, done.status.failed) == (2, 1)
        assert 40 <= world.clock.monotonic() < 45


async def test_pods_that_succeeded_still_count_when_they_are_deleted() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=1, completions=3))
        await world.until(lambda: _has_succeeded(world, 2))
        for pod in await world.pods():
            if pod.status.phase == "Succeeded":
                await world.client.delete(Pod, pod.metadata.name, "default")
        done = await ended(world)
        assert (done.status.succeeded, done.status.failed) == (3, 0)
        assert len(await world.events("SuccessfulCreate")) == 3


async def test_less_parallelism_takes_pods_away_and_none_of_them_counts_as_failed() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=4, completions=4, simulation={"run_duration": "60s"}))
        await world.until(lambda: _are_running(world, 4))
        await world.client.patch(Job, "j", {"spec": {"parallelism": 1}}, namespace="default")
        await asyncio.sleep(10)
        assert len(await world.running()) == 1
        assert (await world.get(Job, "j")).status.failed == 0
        await world.client.patch(Job, "j", {"spec": {"parallelism": 4}}, namespace="default")
        done = await ended(world)
        assert (done.status.succeeded, done.status.failed) == (4, 0)


async def test_a_failure_policy_ends_the_job_at_once_or_overlooks_a_failure() -> None:
    def exits(code: int, action: str) -> PodFailurePolicy:
        codes = PodFailurePolicyOnExitCodesRequirement(operator="In", values=(code,))
        return PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, onExitCodes=codes),))

    async with workloads() as world:
        broken = {"run_duration": "1s", "exit_code": "42"}
        await world.client.create(job("ends", simulation=broken, podFailurePolicy=exits(42, "FailJob")))
        await world.client.create(
            job("goes-on", simulation=broken, backoffLimit=0, podFailurePolicy=exits(42, "Ignore"))
        )
        done = await ended(world, "ends", seconds=10)
        failed = condition(done, "Failed")
        (pod,) = [pod for pod in await world.pods() if pod.metadata.labels["job-name"] == "ends"]
        assert (failed.reason, failed.message) == (
            "PodFailurePolicy",
            f"Container c for pod default/{pod.metadata.name} failed with exit code 42 "
            "matching FailJob rule at index 0",
        )
        await asyncio.sleep(10)
        going_on = await world.get(Job, "goes-on")
        assert going_on.status.failed == 0
        assert len(await world.pods()) > 3
        assert condition(going_on, "Failed") is None


async def test_a_failure_policy_may_look_at_pod_conditions() -> None:
    disrupted = PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    policy = PodFailurePolicy(rules=(PodFailurePolicyRule(action="Ignore", onPodConditions=(disrupted,)),))
    async with workloads() as world:
        await world.client.create(job(podFailurePolicy=policy, backoffLimit=0))
        await world.until(lambda: _are_running(world, 1))
        (pod,) = await world.pods()
        await fail(world, pod, conditions=[{"type": "DisruptionTarget", "status": "True"}])
        done = await ended(world)
        assert condition(done, "Complete") is not None
        assert done.status.failed == 0


async def test_an_index_has_a_limit_of_its_own_where_the_job_says_so() -> None:
    async with workloads() as world:
        spec: dict[str, Any] = {
            "completionMode": "Indexed",
            "parallelism": 3,
            "completions": 3,
            "backoffLimitPerIndex": 1,
        }
        await world.client.create(job(**spec, simulation={"run_duration": "60s"}))
        for _ in range(2):

            async def second_runs() -> bool:
                return any(pod.metadata.labels[INDEX] == "1" for pod in await world.running())

            await world.until(second_runs)
            (pod,) = [pod for pod in await world.running() if pod.metadata.labels[INDEX] == "1"]
            await fail(world, pod)
        done = await ended(world)
        assert condition(done, "Failed").reason == "FailedIndexes"
        assert (done.status.completedIndexes, done.status.failedIndexes) == ("0,2", "1")


INDEX = "batch.kubernetes.io/job-completion-index"


async def test_restarts_in_place_count_towards_the_limit_where_pods_restart() -> None:
    async with workloads() as world:
        broken = {"run_duration": "1s", "exit_code": "1"}
        await world.client.create(job(restart="OnFailure", simulation=broken, backoffLimit=2))
        done = await ended(world)
        assert condition(done, "Failed").reason == "BackoffLimitExceeded"
        assert len(await world.events("SuccessfulCreate")) == 1


async def test_a_job_of_another_controller_is_left_alone() -> None:
    async with workloads() as world:
        await world.client.create(job(managedBy="example.com/mine"))
        await asyncio.sleep(10)
        assert await world.pods() == []


async def test_a_job_that_is_deleted_gets_no_new_pods() -> None:
    async with workloads() as world:
        await world.client.create(job(parallelism=2, completions=10))
        await world.until(lambda: _are_running(world, 2))
        await world.client.delete(Job, "j", "default", propagation="Background")
        await asyncio.sleep(30)
        assert await world.pods() == []


async def test_a_controller_that_starts_anew_goes_on_where_the_last_one_was() -> None:
    world = Workloads()
    async with world.with_node():
        async with world.controlling():
            await world.client.create(job(parallelism=2, completions=6, completionMode="Indexed"))
            await world.until(lambda: _has_succeeded(world, 2))
        await asyncio.sleep(20)
        for pod in await world.pods():
            if pod.metadata.annotations[INDEX] == "0":
                await world.client.delete(Pod, pod.metadata.name, "default")
        await asyncio.sleep(5)
        async with world.controlling():
            done = await ended(world)
            assert (done.status.completedIndexes, done.status.failed) == ("0-5", 0)
            pods = await world.pods()
            assert sorted(pod.metadata.annotations[INDEX] for pod in pods) == ["1", "2", "3", "4", "5"]


async def test_a_controller_that_starts_anew_still_counts_pods_that_are_gone() -> None:
    world = Workloads()
    async with world.with_node():
        async with world.controlling():
            await world.client.create(job(parallelism=1, completions=3))
            await world.until(lambda: _has_succeeded(world, 2))
            await asyncio.sleep(2)
        for pod in await world.pods():
            if pod.status.phase == "Succeeded":
                await world.client.delete(Pod, pod.metadata.name, "default")
        await asyncio.sleep(3)
        async with world.controlling():
            done = await ended(world)
            assert (done.status.succeeded, done.status.failed) == (3, 0)
            assert len(await world.pods()) == 1


async def test_stale_caches_make_no_pod_twice() -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(LateWatch):
        await world.client.create(job(parallelism=4, completions=8, simulation={"run_duration": "5s"}))
        done = await ended(world)
        assert done.status.succeeded == 8
        assert len(await world.pods()) == 8


async def test_lost_requests_and_answers_do_not_change_the_outcome() -> None:
    world = Workloads()
    async with world.with_node(), world.controlling(Unreliable):
        await world.client.create(job(parallelism=3, completions=9, completionMode="Indexed"))
        done = await ended(world)
        assert (done.status.completedIndexes, done.status.failed) == ("0-8", 0)
        assert len(await world.pods()) == 9


async def _are_running(world: Workloads, count: int) -> bool:
    return len(await world.running()) == count


async def _has_succeeded(world: Workloads, count: int) -> bool:
    return sum(pod.status.phase == "Succeeded" for pod in await world.pods()) >= count


async def set_suspended(world: Workloads, suspended: bool) -> None:
    await world.client.patch(Job, "j", {"spec": {"suspend": suspended}}, namespace="default")
