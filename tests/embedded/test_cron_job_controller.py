"""CronJobs: jobs at their times, one per time, in their time zone; concurrency, deadlines, suspension, history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bosket.api.batch import CronJob, Job
from bosket.api.time import parse_time
from bosket.kube.errors import Invalid
from tests.embedded.workloads import NODE, Workloads, workloads

pytestmark = pytest.mark.looptime
_SCHEDULED_FOR = "batch.kubernetes.io/cronjob-scheduled-timestamp"


async def create(
    world: Workloads, schedule: str = "*/5 * * * *", *, seconds: int = 30, exit_code: int = 0, **spec: Any
) -> None:
    annotations = {"bosket.dev/run-duration": f"{seconds}s", "bosket.dev/exit-code": str(exit_code)}
    pod = {"nodeName": NODE, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    job = {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": pod}}
    metadata = {"name": "c", "namespace": "default"}
    whole = {"schedule": schedule, "jobTemplate": {"spec": job}, **spec}
    await world.client.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": whole})


async def times(world: Workloads) -> list[str]:
    """For when the jobs that are there were made, in UTC."""
    jobs = (await world.client.list(Job, "default")).items
    moments = sorted(parse_time(job.metadata.annotations[_SCHEDULED_FOR]) for job in jobs)
    return [datetime.fromtimestamp(moment, UTC).strftime("%d %H:%M") for moment in moments]


async def cron_job(world: Workloads) -> CronJob:
    return await world.client.get(CronJob, "c", "default")


async def pass_minutes(world: Workloads, minutes: float) -> None:
    await world.clock.sleep(minutes * 60)


async def test_jobs_are_made_at_their_times_and_the_status_tells_of_them() -> None:
    async with workloads() as world:  # the clock begins at midnight, on 1 January 2025
        await create(world)
        await pass_minutes(world, 11)
        assert await times(world) == ["01 00:05", "01 00:10"]
        status = (await cron_job(world)).status
        assert status.lastScheduleTime == "2025-01-01T00:10:00Z"
        assert status.lastSuccessfulTime is not None
        assert status.lastSuccessfulTime.startswith("2025-01-01T00:10:")
        assert status.active == ()
        (first, _) = sorted(job.metadata.name for job in (await world.client.list(Job, "default")).items)
        assert first == f"c-{int(parse_time('2025-01-01T00:05:00Z')) // 60}"
        assert await world.events("SuccessfulCreate")


async def test_a_time_zone_is_kept() -> None:
    async with workloads() as world:
        await create(world, "30 9 * * *", timeZone="Asia/Kolkata")  # half an hour off
        await pass_minutes(world, 60 * 5)
        assert await times(world) == ["01 04:00"]
        (job,) = (await world.client.list(Job, "default")).items
        assert job.metadata.annotations[_SCHEDULED_FOR] == "2025-01-01T09:30:00+05:30"


async def test_every_so_often_counts_from_the_creation() -> None:
    async with workloads() as world:
        await pass_minutes(world, 1.5)
        await create(world, "@every 2m")
        await pass_minutes(world, 4.5)
        assert len(await times(world)) == 2


@pytest.mark.parametrize(("exit_code", "kept"), [(0, ["01 00:05", "01 00:06"]), (1, ["01 00:06"])])
async def test_only_so_many_jobs_that_are_done_are_kept(exit_code: int, kept: list[str]) -> None:
    async with workloads() as world:
        await create(world, "* * * * *", seconds=5, exit_code=exit_code, successfulJobsHistoryLimit=2)
        await pass_minutes(world, 6.5)
        assert await times(world) == kept


async def test_jobs_run_beside_each_other_where_that_is_allowed() -> None:
    async with workloads() as world:
        await create(world, "* * * * *", seconds=3600)
        await pass_minutes(world, 3.5)
        assert len((await cron_job(world)).status.active) == 3


async def test_a_job_that_runs_keeps_the_next_from_starting_where_that_is_forbidden() -> None:
    async with workloads() as world:
        await create(world, "*/5 * * * *", seconds=6 * 60, concurrencyPolicy="Forbid")
        await pass_minutes(world, 10.5)
        assert await times(world) == ["01 00:05"]
        assert await world.events("JobAlreadyActive")
        await pass_minutes(world, 1)  # as soon as the first is done, the time that was passed over counts
        assert await times(world) == ["01 00:05", "01 00:10"]


async def test_a_job_that_runs_is_replaced_where_that_is_wanted() -> None:
    async with workloads() as world:
        await create(world, "*/5 * * * *", seconds=3600, concurrencyPolicy="Replace")
        await pass_minutes(world, 11)
        assert await times(world) == ["01 00:10"]
        assert len((await cron_job(world)).status.active) == 1


async def test_a_suspended_one_makes_none_and_later_only_the_latest() -> None:
    async with workloads() as world:
        await create(world, suspend=True)
        await pass_minutes(world, 17)
        assert await times(world) == []
        await world.client.patch(CronJob, "c", {"spec": {"suspend": False}}, namespace="default")
        await pass_minutes(world, 1)
        assert await times(world) == ["01 00:15"]


async def test_what_is_later_than_the_deadline_to_start_is_left_out() -> None:
    async with workloads() as world:
        await create(world, "0 * * * *", suspend=True, startingDeadlineSeconds=600)
        await pass_minutes(world, 75)
        await world.client.patch(CronJob, "c", {"spec": {"suspend": False}}, namespace="default")
        await pass_minutes(world, 30)
        assert await times(world) == []
        assert await world.events("MissSchedule")
        await pass_minutes(world, 30)
        assert await times(world) == ["01 02:00"]


async def test_a_controller_that_was_down_makes_up_for_the_latest_and_makes_none_twice() -> None:
    world = Workloads()
    async with world.with_node():
        async with world.controlling():
            await create(world, seconds=3600)
            await pass_minutes(world, 6)
        await pass_minutes(world, 17)
        async with world.controlling():
            await pass_minutes(world, 1)
            assert await times(world) == ["01 00:05", "01 00:20"]
            assert len((await cron_job(world)).status.active) == 2


async def test_jobs_go_with_their_cron_job() -> None:
    async with workloads() as world:
        await create(world, seconds=3600)
        await pass_minutes(world, 6)
        await world.client.delete(CronJob, "c", "default")
        await pass_minutes(world, 1)
        assert await times(world) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": "often"}, "spec.schedule"),
        ({"schedule": "61 * * * *"}, "spec.schedule"),
        ({"schedule": "TZ=UTC 0 * * * *"}, "spec.schedule"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone"),
        ({"timeZone": "Local"}, "spec.timeZone"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds"),
        ({"concurrencyPolicy": "Perhaps"}, "spec.concurrencyPolicy"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match=field):
        await create(Workloads(), **spec)
