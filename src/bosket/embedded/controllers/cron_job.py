"""The CronJob controller: makes Jobs on a schedule, and clears away those that are done.

A job is named after the minute that it is for, so that none is made twice, whatever is lost in between. Times that
passed unnoticed (suspended, held up by a running job, the process was down) are not made up for but the latest, unless
it is older than the starting deadline.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from email.utils import format_datetime
from typing import Final

from msgspec.structs import replace

from bosket.api.batch import CronJob, CronJobStatus, Job
from bosket.api.core import ObjectReference
from bosket.api.cron import InvalidCron, Schedule, parse_schedule, time_zone
from bosket.api.object import ObjectKey, ObjectMeta
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_of, controller_reference
from bosket.api.time import format_time, parse_time
from bosket.embedded.controllers.job_plan import finished_condition
from bosket.kube.errors import AlreadyExists, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_SCHEDULED_FOR: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: More missed starts than this in a row are reported.
_MANY_MISSED: Final = 100
#: How late it looks: the clock is then sure to have reached the time.
_LATE_SECONDS: Final = 0.1


class CronJobController:
    """Makes every CronJob's Jobs; a `Service`."""

    name = "cronjob-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._events = environment.events.for_component(self.name)
        self._cron_jobs = environment.informers.of(CronJob)
        self._jobs = environment.informers.of(Job)
        self._jobs.add_index(BY_CONTROLLER, controller_index)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._cron_jobs, lambda each: (each.key,))
        self._controller.watch(self._jobs, _cron_job_of)

    async def run(self) -> None:
        """Until cancelled."""
        await self._jobs.wait_synced()  # a job that isn't known would look as if it had gone missing
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        owner = self._cron_jobs.store.get(key)
        if owner is None:
            return None
        try:
            jobs = self._jobs_of(owner)
            owner = await self._write(owner, self._observed(owner, jobs))
            if owner.metadata.deletionTimestamp is not None:
                return None
            await self._clear_away(owner, jobs)
            return await self._start(owner)
        except NotFound:
            return None  # it went away meanwhile, or its namespace

    def _jobs_of(self, owner: CronJob) -> list[Job]:
        jobs = self._jobs.store.by_index(BY_CONTROLLER, owner.metadata.uid)
        return sorted(jobs, key=lambda job: (job.metadata.creationTimestamp or "", job.metadata.name))

    def _observed(self, owner: CronJob, jobs: list[Job]) -> CronJobStatus:
        """The status after what became of the jobs."""
        status = owner.status
        known = {job.metadata.uid: job for job in jobs}
        active = []
        for reference in status.active:
            job = known.get(reference.uid)
            if job is None:
                self._events.event(owner, "Normal", "MissingJob", f"Active job went missing: {reference.name}")
            elif (end := finished_condition(job)) is not None:
                message = f"Saw completed job: {job.metadata.name}, condition: {end.type}"
                self._events.event(owner, "Normal", "SawCompletedJob", message)
            else:
                active.append(reference)
        succeeded = [job.status.completionTime for job in jobs if _succeeded(job) and job.status.completionTime]
        latest = max((*succeeded, *filter(None, (status.lastSuccessfulTime,))), key=parse_time, default=None)
        return replace(status, active=tuple(active), lastSuccessfulTime=latest)

    async def _clear_away(self, owner: CronJob, jobs: list[Job]) -> None:
        """Deletes the oldest of the jobs that are done, beyond the limits."""
        done = [job for job in jobs if finished_condition(job) is not None]
        spec = owner.spec
        for limit, kept in (
            (spec.successfulJobsHistoryLimit, [job for job in done if _succeeded(job)]),
            (spec.failedJobsHistoryLimit, [job for job in done if not _succeeded(job)]),
        ):
            if limit is not None:
                for job in kept[: max(0, len(kept) - limit)]:
                    await self._delete(owner, job)

    async def _start(self, owner: CronJob) -> float | None:
        """Makes the job whose time has come; seconds until the next one."""
        spec, now = owner.spec, self._clock.now()
        if spec.suspend:
            return None
        try:
            schedule = parse_schedule(spec.schedule)
            zone = time_zone(spec.timeZone) if spec.timeZone else UTC
        except InvalidCron as error:
            self._events.event(owner, "Warning", "UnparseableSchedule", f'unparseable schedule: "{error}"')
            return None
        since = self._since(owner, now, schedule, zone)
        due = schedule.last_firing_since(since, now, zone)
        if due is None:
            return schedule.next_firing(since, zone) - now + _LATE_SECONDS
        self._warn_of_missed(owner, schedule, since, zone)
        if await self._may_start(owner):
            await self._create(owner, due, zone)
        return schedule.next_firing(max(due, now), zone) - now + _LATE_SECONDS

    def _since(self, owner: CronJob, now: float, schedule: Schedule, zone: tzinfo) -> float:
        """From when on times count that passed: the last one, but none before the deadline to start."""
        last = owner.status.lastScheduleTime or owner.metadata.creationTimestamp
        since = parse_time(last) if last else now
        deadline = owner.spec.startingDeadlineSeconds
        if deadline is None:
            return since
        missed = schedule.last_firing_since(since, now - deadline, zone)
        if missed is not None:
            start = format_datetime(datetime.fromtimestamp(missed, UTC))
            self._events.event(owner, "Warning", "MissSchedule", f"Missed scheduled time to start a job: {start}")
        return max(since, now - deadline)

    def _warn_of_missed(self, owner: CronJob, schedule: Schedule, since: float, zone: tzinfo) -> None:
        first = schedule.next_firing(since, zone)
        between = schedule.next_firing(first, zone) - first
        if (self._clock.now() - first) // between >= _MANY_MISSED:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._events.event(owner, "Warning", "TooManyMissedTimes", message)

    async def _may_start(self, owner: CronJob) -> bool:
        """Whether a job may start beside those that run; with `Replace`, those go first."""
        if not owner.status.active or owner.spec.concurrencyPolicy == "Allow":
            return True
        if owner.spec.concurrencyPolicy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._events.event(owner, "Normal", "JobAlreadyActive", message)
            return False
        for reference in owner.status.active:
            job = self._jobs.store.get(ObjectKey(owner.metadata.namespace, reference.name))
            if job is not None:
                await self._delete(owner, job)
        return True

    async def _create(self, owner: CronJob, due: float, zone: tzinfo) -> None:
        template, meta = owner.spec.jobTemplate, owner.metadata
        moment = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
        job = Job(
            metadata=ObjectMeta(
                name=f"{meta.name}-{int(due) // 60}",
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations={**template.metadata.annotations, _SCHEDULED_FOR: moment},
                ownerReferences=(controller_reference(owner),),
            ),
            spec=template.spec,
        )
        try:
            made = await self._client.create(job, meta.namespace)
            self._events.event(owner, "Normal", "SuccessfulCreate", f"Created job {made.metadata.name}")
        except AlreadyExists:  # created before without a recorded status, or by somebody else
            made = await self._client.get(Job, job.metadata.name, meta.namespace)
            if meta.uid not in controller_index(made):
                return
        self._jobs.store.put(made)
        reference = ObjectReference(
            apiVersion="batch/v1",
            kind="Job",
            name=made.metadata.name,
            namespace=meta.namespace,
            uid=made.metadata.uid,
            resourceVersion=made.metadata.resourceVersion,
        )
        kept = owner.status.active if owner.spec.concurrencyPolicy != "Replace" else ()
        status = replace(owner.status, active=(*kept, reference), lastScheduleTime=format_time(due))
        await self._write(owner, status)

    async def _delete(self, owner: CronJob, job: Job) -> None:
        try:
            await self._client.delete(
                Job, job.metadata.name, job.metadata.namespace, propagation="Background", uid=job.metadata.uid
            )
        except NotFound:
            return
        self._events.event(owner, "Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    async def _write(self, owner: CronJob, status: CronJobStatus) -> CronJob:
        if status == owner.status:
            return owner
        written = await self._client.modify(owner, replace(owner, status=status), subresource="status")
        self._cron_jobs.store.put(written)
        return written


def _succeeded(job: Job) -> bool:
    end = finished_condition(job)
    return end is not None and end.type == "Complete"


def _cron_job_of(job: Job) -> Iterable[ObjectKey]:
    owner = controller_of(job)
    if owner is None or owner.kind != "CronJob":
        return ()
    return (ObjectKey(job.metadata.namespace, owner.name),)
