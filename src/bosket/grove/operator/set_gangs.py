"""SetGangs: keeps the PodGangs of sets: created before their pods, referring to the pods, initialized once all exist.

The set controller keeps all gangs of a set; the gang controller keeps one whose pods changed. Other conditions and the
phase are written by the backends; each writer changes only its own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.object import ObjectKey
from bosket.api.ownership import controller_of
from bosket.api.time import time_or_zero
from bosket.grove.backends import GangBackends, UnknownBackend
from bosket.grove.condition import is_true, status_of, with_condition
from bosket.grove.operator.cluster import Cluster, by_name
from bosket.grove.operator.problem import OperatorError, reported
from bosket.grove.render.gang import GangPlan, differ_in_references_alone, is_complete, plan_gangs, plan_named, pod_gang
from bosket.grove.render.template import scheduler_of
from bosket.grove.render.topology_levels import Levels
from bosket.runtime.concurrent import for_each, in_turns
from bosket.runtime.debounce import Debounce
from bosket.runtime.events import EventRecorder
from bosket.runtime.keyed_lock import KeyedLock

INITIALIZED: Final = "Initialized"
_SYNC: Final = "ERR_CREATE_OR_PATCH_PODGANG"
#: The debounce of pod references: the pods of a gang come together.
PODS_TOGETHER_SECONDS: Final = 1.0
#: A gang whose pods come within this time is never reported as not initialized.
_PODS_EXPECTED_SECONDS: Final = 5.0


class _Look(NamedTuple):
    """The result for one gang."""

    is_whole: bool  #: whether all its pods are there
    again_seconds: float | None = None  #: after which to look again, if there is a reason


class SetGangs:
    """Keeps the PodGangs of sets."""

    def __init__(
        self,
        cluster: Cluster,
        backends: GangBackends,
        events: EventRecorder,
        *,
        topology_aware: bool,
    ) -> None:
        self._cluster = cluster
        self._backends = backends
        self._events = events
        self._topology_aware = topology_aware
        #: two controllers write gangs; each gang has a lock
        self._locks: KeyedLock[ObjectKey] = KeyedLock()
        self._unreferenced: Debounce[ObjectKey] = Debounce(cluster.clock)

    async def keep(self, owner: PodCliqueSet) -> bool:
        """Creates and updates gangs, and deletes surplus ones; returns whether all pods of all gangs exist."""
        groups = by_name(self._cluster.owned(self._cluster.groups, owner))
        plans = plan_gangs(owner, groups, self._levels(owner))
        there = by_name(self._cluster.owned(self._cluster.gangs, owner))

        async def delete(name: str) -> None:
            gang = there[name]
            what = f"Error deleting PodGang {gang.key}"
            with reported(self._events, owner, "PodGangDeleteFailed", "ERR_DELETE_EXCESS_PODGANG", what):
                deleted = await self._cluster.delete(gang)
            if deleted:
                self._events.event(owner, "Normal", "PodGangDeleteSuccessful", f"Deleted PodGang {gang.key}")

        await for_each(sorted(there.keys() - {each.name for each in plans}), delete)
        # Mostly nothing is to be done, which is checked without creating a task per gang.
        unsettled = [plan async for plan in in_turns(plans) if not self._is_settled(owner, plan)]
        looks = await for_each(unsettled, lambda plan: self._look_at(owner, plan))
        return all(each.is_whole for each in looks)

    async def keep_one(self, owner: PodCliqueSet, gang: PodGang) -> float | None:
        """The same for one existing gang; returns the seconds until the next look."""

        def group_named(name: str) -> PodCliqueScalingGroup | None:
            return self._cluster.groups.store.get(ObjectKey(owner.metadata.namespace, name))

        plan = plan_named(owner, gang.metadata.name, group_named, self._levels(owner))
        return (await self._look_at(owner, plan)).again_seconds if plan is not None else None

    def forget(self, gang: ObjectKey) -> None:
        """The gang was deleted."""
        self._unreferenced.flushed(gang)

    def _levels(self, owner: PodCliqueSet) -> Levels:
        if not self._topology_aware:
            return None
        binding = self._cluster.binding_of(owner)
        return binding.spec.levels if binding is not None else ()

    def _is_settled(self, owner: PodCliqueSet, plan: GangPlan) -> bool:
        """Whether the gang is complete and needs no write."""
        existing = self._existing(owner, ObjectKey(owner.metadata.namespace, plan.name))
        if existing is None or self._cluster.is_terminating(existing):
            return False
        cliques, pods = self._parts(owner, plan)
        return (
            is_true(existing.status.conditions, INITIALIZED)
            and is_complete(plan, cliques, pods)
            and self._wanted(owner, plan, pods, existing) == existing
        )

    async def _look_at(self, owner: PodCliqueSet, plan: GangPlan) -> _Look:
        """Creates or updates one gang."""
        key = ObjectKey(owner.metadata.namespace, plan.name)
        async with self._locks.hold(key):
            existing = self._existing(owner, key)
            if existing is not None and self._cluster.is_terminating(existing):
                return _Look(is_whole=False)
            cliques, pods = self._parts(owner, plan)
            wanted = self._wanted(owner, plan, pods, existing)
            is_whole = is_complete(plan, cliques, pods)
            if existing is not None and not is_whole and differ_in_references_alone(existing, wanted):
                left = self._unreferenced.seconds_left(key, PODS_TOGETHER_SECONDS)
                if left:
                    return _Look(is_whole, left)
            self.forget(key)
            gang = await self._keep_gang(owner, existing, wanted)
            if gang is None:
                return _Look(is_whole=False)
            return _Look(is_whole, await self._note_initialized(gang, is_whole=is_whole))

    def _existing(self, owner: PodCliqueSet, key: ObjectKey) -> PodGang | None:
        """The set's own gang of that name."""
        found = self._cluster.gangs.store.get(key)
        controller = controller_of(found) if found is not None else None
        return found if controller is not None and controller.uid == owner.metadata.uid else None

    def _parts(self, owner: PodCliqueSet, plan: GangPlan) -> tuple[dict[str, PodClique], dict[str, list[Pod]]]:
        """The gang's PodCliques that there are, and stay, by name; and their pods."""
        store, namespace = self._cluster.cliques.store, owner.metadata.namespace
        found = (store.get(ObjectKey(namespace, part.clique)) for part in plan.parts)
        cliques = by_name(each for each in found if each is not None and not self._cluster.is_terminating(each))
        return cliques, {name: self._staying_pods(clique) for name, clique in cliques.items()}

    def _staying_pods(self, clique: PodClique) -> list[Pod]:
        pods = self._cluster.owned(self._cluster.pods, clique)
        return [each for each in pods if not self._cluster.is_terminating(each)]

    def _wanted(
        self, owner: PodCliqueSet, plan: GangPlan, pods: dict[str, list[Pod]], existing: PodGang | None
    ) -> PodGang:
        with self._reported(owner, plan.name):
            try:
                backend, scheduler = self._backends.choose(scheduler_of(owner), owner.metadata.annotations)
            except UnknownBackend as error:
                raise OperatorError(_SYNC, str(error)) from error
        return pod_gang(owner, plan, pods, existing, scheduler_name=scheduler, backend=backend.name)

    def _reported(self, owner: PodCliqueSet, name: str) -> AbstractContextManager[None]:
        what = f"Error Creating/Updating PodGang {owner.metadata.namespace}/{name}"
        return reported(self._events, owner, "PodGangCreateOrUpdateFailed", _SYNC, what)

    async def _keep_gang(self, owner: PodCliqueSet, existing: PodGang | None, wanted: PodGang) -> PodGang | None:
        if wanted == existing:
            return existing
        with self._reported(owner, wanted.metadata.name):
            if existing is None:
                written = await self._cluster.make(wanted)
            else:
                written = await self._cluster.write(existing, wanted)
        if written is None:
            return None
        message = f"Created/Updated PodGang {written.key}"
        self._events.event(owner, "Normal", "PodGangCreateOrUpdateSuccessful", message)
        return written

    async def _note_initialized(self, gang: PodGang, *, is_whole: bool) -> float | None:
        """Once initialized, a gang stays so, whatever becomes of its pods; when to look again."""
        if is_true(gang.status.conditions, INITIALIZED):
            return None
        if is_whole:
            said = ("True", "PodGangPodsCreated", "PodGang is fully initialized")
        elif not status_of(gang.status.conditions, INITIALIZED):
            left = _PODS_EXPECTED_SECONDS - self._age_seconds(gang)
            if left > 0:
                return left
            said = ("False", "PodGangPodsCreationPending", "Not all constituent pods have been created yet")
        else:
            return None
        conditions = with_condition(gang.status.conditions, INITIALIZED, *said, now=self._cluster.clock.now())
        status = replace(gang.status, conditions=conditions, phase=gang.status.phase or "Pending")
        await self._cluster.write_status(gang, replace(gang, status=status))
        return None

    def _age_seconds(self, gang: PodGang) -> float:
        return self._cluster.clock.now() - time_or_zero(gang.metadata.creationTimestamp)
