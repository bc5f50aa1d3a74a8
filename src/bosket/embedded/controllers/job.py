"""The Job controller: runs pods until enough of them have succeeded.

What is to be done is decided in `job_plan`, from what the pods amount to (`job_summary`). This module brings it to the
API server and takes finished jobs away when their time to live is over. Its pods carry a finalizer until they are
counted (`job_tracking`); pods that lose their job are let go in `job_strays`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.batch import Job
from bosket.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from bosket.api.object import ObjectKey
from bosket.api.ownership import controller_of
from bosket.api.time import parse_time
from bosket.embedded.controllers.job_plan import Plan, finished_condition, plan
from bosket.embedded.controllers.job_summary import COMPLETION_INDEX, INDEX_FAILURES, JobSummary, Memory, summarize
from bosket.embedded.controllers.job_tracking import FINALIZER, is_tracked, untracked
from bosket.embedded.controllers.pod_control import PodControl
from bosket.embedded.controllers.pods import pod_of
from bosket.kube.errors import ApiError, Conflict, NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_THIS_CONTROLLER: Final = "kubernetes.io/job-controller"
_INDEX_VARIABLE: Final = EnvVar(
    name="JOB_COMPLETION_INDEX",
    valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{COMPLETION_INDEX}']")),
)


class JobController:
    """Brings every Job to its end; a `Service`."""

    name = "job-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._events = environment.events.for_component(self.name)
        self._jobs = environment.informers.of(Job)
        self._pods = PodControl(environment, self.name)
        self._memories: dict[str, Memory] = {}  # by the job's uid
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=self._clock, metrics=environment.metrics
        )
        self._jobs.subscribe(self._forget_deleted)
        self._controller.watch(self._jobs, lambda job: (job.key,))
        self._controller.watch(self._pods.informer, _job_of)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        job = self._jobs.store.get(key)
        if job is None or job.spec.managedBy not in (None, _THIS_CONTROLLER):
            return None
        pods = self._pods.of(job)
        if job.metadata.deletionTimestamp is not None:
            await self._release(pods)  # the rest is the garbage collector's
            return None
        if finished_condition(job) is not None:
            await self._release(pods)
            return await self._expire(job)
        memory = self._memories.setdefault(job.metadata.uid, Memory())
        summary = summarize(job, pods, memory, deleted_here=self._pods.deleted_here)
        wanted = plan(job, summary, self._clock.now())
        try:
            await self._carry_out(job, summary, wanted)
        except NotFound:
            return None  # the job went away meanwhile, or its namespace
        return wanted.look_again_seconds

    async def _carry_out(self, job: Job, summary: JobSummary, wanted: Plan) -> None:
        for pod in wanted.delete:
            kept = pod if wanted.deleted_have_failed else await self._release_one(pod)
            await self._pods.delete(job, kept)
        status = wanted.status
        failure: ApiError | None = None
        for number, index in enumerate(wanted.create):
            try:
                await self._pods.create(job, _new_pod(job, index, _failures_so_far(summary, index)))
            except ApiError as error:
                # The status tells what is, also when it is less than was wanted.
                failure = error
                status = replace(status, active=status.active - len(wanted.create) + number)
                break
        self._jobs.store.put(await self._client.modify(job, replace(job, status=status), subresource="status"))
        for notice in wanted.notices:
            self._events.event(job, notice.type, notice.reason, notice.message)
        # Not before the status has them: who has lost the finalizer may be gone at once.
        await self._release(wanted.release)
        if failure is not None:
            raise failure

    async def _release(self, pods: list[Pod]) -> None:
        """Let pods go; one that has just changed doesn't keep the others."""
        conflict: Conflict | None = None
        for pod in pods:
            try:
                await self._release_one(pod)
            except Conflict as error:
                conflict = error
        if conflict is not None:
            raise conflict

    async def _release_one(self, pod: Pod) -> Pod:
        if not is_tracked(pod):
            return pod
        try:
            released = await self._client.modify(pod, untracked(pod))
        except NotFound:
            return pod  # gone; the informer will say so
        self._pods.informer.store.put(released)
        return released

    async def _expire(self, job: Job) -> float | None:
        """Delete a job that has been finished for its time to live."""
        end = finished_condition(job)
        if job.spec.ttlSecondsAfterFinished is None or end is None or end.lastTransitionTime is None:
            return None
        remaining = parse_time(end.lastTransitionTime) + job.spec.ttlSecondsAfterFinished - self._clock.now()
        if remaining > 0:
            return remaining
        try:
            await self._client.delete(
                Job,
                job.metadata.name,
                job.metadata.namespace,
                propagation="Background",
                uid=job.metadata.uid,
                resource_version=job.metadata.resourceVersion,  # somebody may just have given it more time
            )
        except (NotFound, Conflict):
            return None
        return None

    def _forget_deleted(self, change: Change[Job]) -> None:
        old, new = change
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._memories.pop(old.metadata.uid, None)


def _job_of(pod: Pod) -> tuple[ObjectKey, ...]:
    owner = controller_of(pod)
    if owner is None or owner.kind != "Job" or not owner.apiVersion.startswith("batch/"):
        return ()
    return (ObjectKey(pod.metadata.namespace, owner.name),)


def _failures_so_far(summary: JobSummary, index: int | None) -> int:
    attempts = summary.attempts.get(index) if index is not None else None
    return attempts.failures if attempts is not None else 0


def _new_pod(job: Job, index: int | None, failures: int) -> Pod:
    """A pod for the job and one of its indexes, on which so many have failed before it."""
    name, uid = job.metadata.name, job.metadata.uid
    labels = {} if job.spec.manualSelector else _tracking_labels(name, uid)
    if index is None:
        return _tracked(pod_of(job, job.spec.template, generate_name=f"{name}-", labels=labels))
    mark = {COMPLETION_INDEX: str(index)}
    notes = mark if job.spec.backoffLimitPerIndex is None else {**mark, INDEX_FAILURES: str(failures)}
    pod = pod_of(job, job.spec.template, generate_name=f"{name}-{index}-", labels={**labels, **mark}, annotations=notes)
    spec = replace(
        pod.spec,
        hostname=pod.spec.hostname or f"{name}-{index}",
        containers=tuple(_with_index(each) for each in pod.spec.containers),
        initContainers=tuple(_with_index(each) for each in pod.spec.initContainers),
    )
    return _tracked(replace(pod, spec=spec))


def _tracked(pod: Pod) -> Pod:
    finalizers = dict.fromkeys((*pod.metadata.finalizers, FINALIZER))
    return replace(pod, metadata=replace(pod.metadata, finalizers=tuple(finalizers)))


def _tracking_labels(name: str, uid: str) -> dict[str, str]:
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def _with_index(container: Container) -> Container:
    if any(variable.name == _INDEX_VARIABLE.name for variable in container.env):
        return container
    return replace(container, env=(*container.env, _INDEX_VARIABLE))
