"""GangController: keeps the pod references of PodGangs up to date as pods come and go.

It reconciles one gang at a time, so that the cost of a pod doesn't depend on the number of gangs; everything else about
gangs is done by the set controller.
"""

from __future__ import annotations

from typing import Final

from bosket.api.core import Pod
from bosket.api.grove import PodGang
from bosket.api.grove.naming import GANG_LABEL
from bosket.api.object import ObjectKey
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.fault import find_faults
from bosket.grove.operator.problem import OperatorError
from bosket.grove.operator.set_gangs import PODS_TOGETHER_SECONDS, SetGangs
from bosket.grove.render.template import is_terminating, set_name_of
from bosket.grove.status.gathering import POD_SECONDS, gather_seconds
from bosket.kube.errors import NotFound
from bosket.kube.informer import Change
from bosket.runtime.controller import Controller
from bosket.runtime.service import Environment

NAME: Final = "podgang-controller"


class GangController:
    """Reconciles PodGangs with their pods."""

    def __init__(self, env: Environment, cluster: Cluster, gangs: SetGangs, *, workers: int) -> None:
        self._cluster = cluster
        self._gangs = gangs
        self._controller: Controller[ObjectKey] = Controller(
            NAME, self._reconcile, workers=workers, clock=env.clock, metrics=env.metrics
        )
        cluster.gangs.subscribe(self._gang_changed)
        cluster.pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Until cancelled."""
        await self._controller.run()

    # --- events

    def _gang_changed(self, change: Change[PodGang]) -> None:
        """A new gang is enqueued with a delay: its pods are about to come."""
        old, new = change
        if new is not None and old is None:
            self._controller.queue.add_after(new.key, PODS_TOGETHER_SECONDS)
        elif new is None and old is not None:
            self._gangs.forget(old.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change
        known = new or old
        if known is None or not set_name_of(known) or GANG_LABEL not in known.metadata.labels:
            return
        if old is None or new is None or is_terminating(old) != is_terminating(new):
            key = ObjectKey(known.metadata.namespace, known.metadata.labels[GANG_LABEL])
            gang = self._cluster.gangs.store.get(key)
            if gang is not None:
                size = sum(len(each.podReferences) for each in gang.spec.podgroups)
                self._controller.queue.add_after(key, gather_seconds(size, POD_SECONDS))

    # --- reconciling

    async def _reconcile(self, key: ObjectKey) -> float | None:
        gang = self._cluster.gangs.store.get(key)
        owner = self._cluster.set_of(gang) if gang is not None else None
        if gang is None or owner is None or is_terminating(owner) or find_faults(owner):
            return None
        try:
            return await self._gangs.keep_one(owner, gang)
        except (OperatorError, NotFound):
            return None  # the set controller meets the same error, and reports it
