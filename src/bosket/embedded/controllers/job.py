"""The Job controller: runs pods until enough of them have succeeded.

What is to be done is decided in `job_plan`, from what the pods amount to (`job_tally`). This module brings it to the
API server and takes finished jobs away when their time to live is over.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bosket.api.batch import Job
from bosket.api.core import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from bosket.api.object import ObjectKey
from bosket.api.time import parse_time
from bosket.embedded.controllers.job_plan import Plan, finished_condition, plan
from bosket.embedded.controllers.job_tally import COMPLETION_INDEX, Departed, departed_before, tally
from bosket.embedded.controllers.ownership import controller_of
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
        self._pods = PodControl(environment, self.name, on_gone=self._count_departed)
        self._departed: dict[str, Departed] = {}  # by the job's uid
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
        if job is None or job.metadata.deletionTimestamp is not None:
            return None  # its pods are the garbage collector's
        if job.spec.managedBy not in (None, _THIS_CONTROLLER):
            return None
        if finished_condition(job) is not None:
            return await self._expire(job)
        pods = self._pods.of(job)
        departed = self._departed.get(job.metadata.uid)
        if departed is None:
            departed = self._departed[job.metadata.uid] = departed_before(job, pods)
        now = self._clock.now()
        wanted = plan(job, tally(job, pods, departed, deleted_here=self._pods.deleted_here), now)
        try:
            await self._carry_out(job, wanted)
        except NotFound:
            return None  # the job went away meanwhile, or its namespace
        return wanted.look_again_seconds

    async def _carry_out(self, job: Job, wanted: Plan) -> None:
        for pod in wanted.delete:
            await self._pods.delete(job, pod)
        status = wanted.status
        failure: ApiError | None = None
        for number, index in enumerate(wanted.create):
            try:
                await self._pods.create(job, _new_pod(job, index))
            except ApiError as error:
                # The status tells what is, also when it is less than was wanted.
                failure = error
                status = replace(status, active=status.active - len(wanted.create) + number)
                break
        self._jobs.store.put(await self._client.modify(job, replace(job, status=status), subresource="status"))
        for notice in wanted.notices:
            self._events.event(job, notice.type, notice.reason, notice.message)
        if failure is not None:
            raise failure

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

    def _count_departed(self, pod: Pod, deleted_here: bool) -> None:
        for key in _job_of(pod):
            job = self._jobs.store.get(key)
            owner = controller_of(pod)
            if job is None or owner is None or job.metadata.uid != owner.uid:
                continue
            departed = self._departed.get(owner.uid)
            if departed is not None:  # else the first look at the job finds the difference to what its status says
                departed.add(job, pod, deleted_here=deleted_here)

    def _forget_deleted(self, change: Change[Job]) -> None:
        old, new = change
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._departed.pop(old.metadata.uid, None)


def _job_of(pod: Pod) -> tuple[ObjectKey, ...]:
    owner = controller_of(pod)
    if owner is None or owner.kind != "Job" or not owner.apiVersion.startswith("batch/"):
        return ()
    return (ObjectKey(pod.metadata.namespace, owner.name),)


def _new_pod(job: Job, index: int | None) -> Pod:
    name, uid = job.metadata.name, job.metadata.uid
    labels = {} if job.spec.manualSelector else _tracking_labels(name, uid)
    if index is None:
        return pod_of(job, job.spec.template, generate_name=f"{name}-", labels=labels)
    mark = {COMPLETION_INDEX: str(index)}
    pod = pod_of(job, job.spec.template, generate_name=f"{name}-{index}-", labels={**labels, **mark}, annotations=mark)
    spec = replace(
        pod.spec,
        hostname=pod.spec.hostname or f"{name}-{index}",
        containers=tuple(_with_index(each) for each in pod.spec.containers),
        initContainers=tuple(_with_index(each) for each in pod.spec.initContainers),
    )
    return replace(pod, spec=spec)


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
