"""The ReplicaSet controller: keeps a number of equal pods running."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.apps import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from bosket.api.condition import find_condition
from bosket.api.core import Pod
from bosket.api.object import ObjectKey
from bosket.api.pod_phase import has_ended
from bosket.api.time import format_time
from bosket.embedded.controllers.adoption import sets_by_pod
from bosket.embedded.controllers.pod_control import PodControl
from bosket.embedded.controllers.pods import (
    in_order_of_deletion,
    is_ready,
    pod_of,
    seconds_until_available,
)
from bosket.kube.errors import ApiError, NotFound
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

_FAILURE: Final = "ReplicaFailure"


class ReplicaSetController:
    """Creates what is missing and deletes what is too much; a `Service`."""

    name = "replicaset-controller"

    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._clock = environment.clock
        self._sets = environment.informers.of(ReplicaSet)
        self._pods = PodControl(environment, self.name)
        self._controller: Controller[ObjectKey] = Controller(
            self.name, self._reconcile, workers=4, clock=self._clock, metrics=environment.metrics
        )
        self._controller.watch(self._sets, lambda each: (each.key,))
        self._controller.watch(self._pods.informer, sets_by_pod("ReplicaSet", self._sets))

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        wanted = self._sets.store.get(key)
        if wanted is None:
            return None
        try:
            pods = await self._pods.claim(wanted, wanted.spec.selector)
            failure = None
            if wanted.metadata.deletionTimestamp is None:
                failure = await self._scale(wanted, self._active(pods))
            active = self._active(self._pods.of(wanted))
            status = self._status(wanted, active, failure)
            after = replace(wanted, status=status)
            self._sets.store.put(await self._client.modify(wanted, after, subresource="status"))
        except NotFound:
            return None  # the set went away meanwhile, or its namespace
        if failure is not None:
            raise failure
        return self._seconds_until_next_available(wanted, active)

    def _active(self, pods: Iterable[Pod]) -> list[Pod]:
        return [pod for pod in pods if not has_ended(pod) and not self._pods.is_going(pod)]

    async def _scale(self, wanted: ReplicaSet, active: list[Pod]) -> ApiError | None:
        """Create or delete; a refusal is given back, so that the status can tell of it."""
        missing = _replicas(wanted) - len(active)
        try:
            for _ in range(missing):
                await self._pods.create(
                    wanted, pod_of(wanted, wanted.spec.template, generate_name=f"{wanted.metadata.name}-")
                )
            for pod in in_order_of_deletion(active)[: max(0, -missing)]:
                await self._pods.delete(wanted, pod)
        except NotFound:
            raise
        except ApiError as error:
            return error
        return None

    def _status(self, wanted: ReplicaSet, active: list[Pod], failure: ApiError | None) -> ReplicaSetStatus:
        now = self._clock.now()
        labels = wanted.spec.template.metadata.labels.items()
        return replace(
            wanted.status,
            replicas=len(active),
            fullyLabeledReplicas=sum(labels <= pod.metadata.labels.items() for pod in active),
            readyReplicas=sum(is_ready(pod) for pod in active),
            availableReplicas=sum(
                seconds_until_available(pod, wanted.spec.minReadySeconds, now) == 0 for pod in active
            ),
            observedGeneration=wanted.metadata.generation,
            conditions=_conditions(wanted, failure, now),
        )

    def _seconds_until_next_available(self, wanted: ReplicaSet, active: list[Pod]) -> float | None:
        now = self._clock.now()
        waits = (seconds_until_available(pod, wanted.spec.minReadySeconds, now) for pod in active)
        return min((wait for wait in waits if wait), default=None)


def _conditions(wanted: ReplicaSet, failure: ApiError | None, now: float) -> tuple[ReplicaSetCondition, ...]:
    others = tuple(each for each in wanted.status.conditions if each.type != _FAILURE)
    if failure is None:
        return others
    known = find_condition(wanted.status.conditions, _FAILURE)
    if known is not None and known.message == failure.message:
        return wanted.status.conditions
    return (
        *others,
        ReplicaSetCondition(
            type=_FAILURE,
            status="True",
            reason="FailedCreate",
            message=failure.message,
            lastTransitionTime=format_time(now),
        ),
    )


def _replicas(wanted: ReplicaSet) -> int:
    return 1 if wanted.spec.replicas is None else wanted.spec.replicas
