"""Removes the Job finalizer from pods whose Job is gone or released them: nobody will count them.

Without this, pods of a deleted Job would stay for ever: the garbage collector deletes them, and the finalizer of
`job_tracking` would hold them. Pods of a Job that is finished or being deleted are the Job controller's.
"""

from __future__ import annotations

from bosket.api.batch import Job
from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.ownership import BY_CONTROLLER, controller_index, controller_of
from bosket.embedded.controllers.job_tracking import is_tracked, untracked
from bosket.kube.errors import NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment


class StrayJobPods:
    """Takes the finalizer from pods without a job; a `Service`."""

    name = "stray-job-pods"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._jobs = environment.informers.of(Job)
        self._pods = environment.informers.of(Pod)
        self._pods.add_index(BY_CONTROLLER, controller_index)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, clock=environment.clock, metrics=environment.metrics
        )
        self._controller.watch(self._pods, lambda pod: (pod.key,) if is_tracked(pod) else ())
        self._controller.watch(self._jobs, self._pods_of)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    def _pods_of(self, job: Job) -> list[ObjectKey]:
        if self._jobs.store.get(job.key) is not None:
            return []
        return [pod.key for pod in self._pods.store.by_index(BY_CONTROLLER, job.metadata.uid)]

    async def _reconcile(self, key: ObjectKey) -> None:
        pod = self._pods.store.get(key)
        if pod is None or not is_tracked(pod) or not self._is_stray(pod):
            return
        try:
            self._pods.store.put(await self._client.modify(pod, untracked(pod)))
        except NotFound:
            return  # gone already; the informer will say so

    def _is_stray(self, pod: Pod) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return True
        if owner.kind != "Job" or not owner.apiVersion.startswith("batch/"):
            return False
        job = self._jobs.store.get(ObjectKey(pod.metadata.namespace, owner.name))
        return job is None or job.metadata.uid != owner.uid
