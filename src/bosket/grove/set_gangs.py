"""The gangs of a set: made before their pods, kept up to date with them, and said to be initialized once all are there.

Other conditions and the phase are written by the schedulers' backends; each writer changes its own alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import ClusterTopologyBinding, PodClique, PodCliqueSet, PodGang
from bosket.grove.cluster import Cluster, by_name
from bosket.grove.condition import is_true, status_of, with_condition
from bosket.grove.problem import OperatorError, reported
from bosket.grove.render_gang import GangPlan, is_complete, plan_gangs, pod_gang
from bosket.grove.template import scheduler_of
from bosket.grove_backends import GangBackends, UnknownBackend
from bosket.runtime.events import EventRecorder

INITIALIZED: Final = "Initialized"
_SYNC: Final = "ERR_CREATE_OR_PATCH_PODGANG"
#: How many gangs are written at the same time.
_GANGS_AT_ONCE: Final = 32


class SetGangs:
    """Keeps the PodGangs of sets."""

    def __init__(
        self,
        cluster: Cluster,
        backends: GangBackends,
        events: EventRecorder,
        *,
        default_scheduler: str,
        topology_aware: bool,
    ) -> None:
        self._cluster = cluster
        self._backends = backends
        self._events = events
        self._default_scheduler = default_scheduler
        self._topology_aware = topology_aware
        self._at_once = asyncio.Semaphore(_GANGS_AT_ONCE)

    async def keep(self, owner: PodCliqueSet, binding: ClusterTopologyBinding | None) -> bool:
        """Make and change gangs, and delete what is too many; whether all pods of all gangs are there."""
        cliques = by_name(
            each for each in self._cluster.part_of(self._cluster.cliques, owner) if not self._cluster.is_going(each)
        )
        groups = by_name(self._cluster.owned(self._cluster.groups, owner))
        levels = None if not self._topology_aware else binding.spec.levels if binding is not None else ()
        plans = plan_gangs(owner, groups, levels)
        there = by_name(self._cluster.owned(self._cluster.gangs, owner))
        for name in there.keys() - {each.name for each in plans}:
            gang = there[name]
            what = f"Error deleting PodGang {gang.key}"
            with reported(self._events, owner, "PodGangDeleteFailed", "ERR_DELETE_EXCESS_PODGANG", what):
                deleted = await self._cluster.delete(gang)
            if deleted:
                self._events.event(owner, "Normal", "PodGangDeleteSuccessful", f"Deleted PodGang {gang.key}")
        pods = {name: self._staying_pods(clique) for name, clique in cliques.items()}
        complete = await asyncio.gather(
            *(self._look_at(owner, plan, there.get(plan.name), cliques, pods) for plan in plans)
        )
        return all(complete)

    async def _look_at(
        self,
        owner: PodCliqueSet,
        plan: GangPlan,
        existing: PodGang | None,
        cliques: Mapping[str, PodClique],
        pods: Mapping[str, list[Pod]],
    ) -> bool:
        """Make or change one gang; whether all its pods are there."""
        if existing is not None and self._cluster.is_going(existing):
            return False
        async with self._at_once:
            gang = await self._keep_gang(owner, plan, pods, existing)
            if gang is None:
                return False
            is_whole = is_complete(plan, cliques, pods)
            await self._note_initialized(gang, is_whole=is_whole)
        return is_whole

    def _staying_pods(self, clique: PodClique) -> list[Pod]:
        pods = self._cluster.owned(self._cluster.pods, clique)
        return [each for each in pods if not self._cluster.is_going(each)]

    async def _keep_gang(
        self, owner: PodCliqueSet, plan: GangPlan, pods: Mapping[str, list[Pod]], existing: PodGang | None
    ) -> PodGang | None:
        scheduler = scheduler_of(owner, self._default_scheduler)
        what = f"Error Creating/Updating PodGang {owner.metadata.namespace}/{plan.name}"
        with reported(self._events, owner, "PodGangCreateOrUpdateFailed", _SYNC, what):
            try:
                backend = self._backends.choose(scheduler, owner.metadata.annotations).name
            except UnknownBackend as error:
                raise OperatorError(_SYNC, str(error)) from error
            wanted = pod_gang(owner, plan, pods, existing, scheduler_name=scheduler, backend=backend)
            if wanted == existing:
                return existing
            if existing is None:
                written = await self._cluster.make(wanted)
            else:
                written = await self._cluster.write(existing, wanted)
        if written is None:
            return None
        message = f"Created/Updated PodGang {written.key}"
        self._events.event(owner, "Normal", "PodGangCreateOrUpdateSuccessful", message)
        return written

    async def _note_initialized(self, gang: PodGang, *, is_whole: bool) -> None:
        """Once initialized, a gang stays so, whatever becomes of its pods."""
        if is_true(gang.status.conditions, INITIALIZED):
            return
        if is_whole:
            said = ("True", "PodGangPodsCreated", "PodGang is fully initialized")
        elif not status_of(gang.status.conditions, INITIALIZED):
            said = ("False", "PodGangPodsCreationPending", "Not all constituent pods have been created yet")
        else:
            return
        conditions = with_condition(gang.status.conditions, INITIALIZED, *said, now=self._cluster.clock.now())
        status = replace(gang.status, conditions=conditions, phase=gang.status.phase or "Pending")
        await self._cluster.write_status(gang, replace(gang, status=status))
