"""GangBackends: what the Grove operator calls when it creates PodGangs and pods."""

from __future__ import annotations

from collections.abc import Mapping

from bosket.api import keys
from bosket.api.core import Pod
from bosket.api.grove import PodGang
from bosket.grove.backends.backend import SchedulerBackend, prepare_pod, with_spec
from bosket.grove.backends.catalogue import load_backends
from bosket.grove.backends.cluster_view import ClusterView
from bosket.grove.backends.registry import Registry
from bosket.runtime.service import Environment


class GangBackends:
    """The backends of all installed packages, on what is known of the cluster."""

    def __init__(self, env: Environment, default_scheduler_name: str = keys.DEFAULT_SCHEDULER_NAME) -> None:
        self.registry = Registry(load_backends(), default_scheduler_name=default_scheduler_name, metrics=env.metrics)
        self._cluster = ClusterView(env, self.registry.backends)

    async def wait_ready(self) -> None:
        """Waits until discovery and informers are synced; call it first, while informers run."""
        await self._cluster.wait_ready()

    async def run(self) -> None:
        """Repeats discovery until cancelled."""
        await self._cluster.keep_fresh()

    def choose(self, scheduler_name: str, annotations: Mapping[str, str] | None = None) -> tuple[SchedulerBackend, str]:
        """The backend for pods whose clique says this `schedulerName`, or the one that the set's annotations name; and
        the `schedulerName` that the pods get.

        Raises `UnknownBackend`.
        """
        backend = self.registry.choose(scheduler_name, annotations)
        return backend, self.registry.scheduler_of_pods(backend, scheduler_name)

    def pod_additions(self, gang: PodGang, pod: Pod) -> Pod:
        """The gang's pod as it has to be created; raises `Refused` or `UnknownBackend`."""
        backend = self.registry.of_gang(gang)
        pod = with_spec(pod, schedulerName=self.registry.scheduler_of_pods(backend, pod.spec.schedulerName))
        return prepare_pod(backend, gang, pod, self._cluster.surroundings(gang, backend))
