"""SetController: reconciles PodCliqueSets: all children except pods, rolling updates, gang termination.

A reconciliation goes in steps, each of which needs those before: what pods need to start (accounts, services, claims),
PodCliques in no group, scaling groups, gangs. A step that can't be finished ends the reconciliation; it is repeated
after a while, or after an event.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from bosket.api.grove import ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import RECONCILE_TRIGGER_ANNOTATION, SET_FINALIZER
from bosket.api.object import ObjectKey
from bosket.api.ownership import controller_of
from bosket.grove.condition import BREACHED, status_of
from bosket.grove.operator.cluster import BY_TOPOLOGY, Cluster, by_name, set_key
from bosket.grove.operator.compute_domains import ComputeDomains
from bosket.grove.operator.fault import find_faults
from bosket.grove.operator.problem import OperatorError
from bosket.grove.operator.reconciler import Reconciler, Synced
from bosket.grove.operator.set_children import SetChildren
from bosket.grove.operator.set_gangs import SetGangs
from bosket.grove.operator.set_replicas import SetReplicas
from bosket.grove.operator.set_update import begun_update
from bosket.grove.render.template import is_in_group, is_terminating
from bosket.grove.render.template_hash import generation_hash
from bosket.grove.status.gathering import CLIQUE_SECONDS, gather_seconds
from bosket.grove.status.set import patience_seconds, set_status
from bosket.kube.informer import Change, Informer
from bosket.runtime.service import Environment

NAME: Final = "podcliqueset-controller"
_RETRY_SECONDS: Final = 5.0


class SetController(Reconciler[PodCliqueSet]):
    """Reconciles PodCliqueSets."""

    name = NAME
    finalizer = SET_FINALIZER
    error_code = "ERR_SYNC_PODCLIQUESET"

    def __init__(
        self,
        env: Environment,
        cluster: Cluster,
        gangs: SetGangs,
        domains: ComputeDomains,
        *,
        topology_aware: bool,
        workers: int,
    ) -> None:
        super().__init__(env, cluster, cluster.sets, workers=workers)
        self._children = SetChildren(cluster, self._events)
        self._replicas = SetReplicas(cluster, self._events)
        self._gangs = gangs
        self._domains = domains
        self._topology_aware = topology_aware
        cluster.sets.subscribe(self._set_changed)
        cluster.bindings.subscribe(self._binding_changed)
        cluster.cliques.subscribe(self._clique_changed)
        cluster.groups.subscribe(self._group_changed)
        cluster.secrets.subscribe(self._child_changed)
        cluster.gangs.subscribe(self._gang_changed)
        domains.on_change(self._controller.queue.add)
        repaired: tuple[Informer[Any], ...] = (
            cluster.services,
            cluster.accounts,
            cluster.roles,
            cluster.role_bindings,
            cluster.autoscalers,
        )
        for informer in repaired:
            informer.subscribe(self._child_gone)

    # --- events

    def _set_changed(self, change: Change[PodCliqueSet]) -> None:
        old, new = change
        if new is not None and (old is None or _asked(old) != _asked(new)):
            self._controller.queue.add(new.key)

    def _binding_changed(self, change: Change[ClusterTopologyBinding]) -> None:
        known = change.new or change.old
        if known is not None:
            for owner in self._cluster.sets.store.by_index(BY_TOPOLOGY, known.metadata.name):
                self._controller.queue.add(owner.key)

    def _clique_changed(self, change: Change[PodClique]) -> None:
        old, new = change
        if old is None:
            return
        if new is None:
            if not is_in_group(old):
                self._soon(set_key(old))
        elif _clique_state(old) != _clique_state(new):
            self._soon(set_key(new))

    def _group_changed(self, change: Change[PodCliqueScalingGroup]) -> None:
        old, new = change
        if old is None:
            return
        if new is None or _group_state(old) != _group_state(new):
            self._soon(set_key(old))

    def _child_changed(self, change: Change[Any]) -> None:
        for known in (change.new, change.old):
            if known is not None and controller_of(known) is not None:
                self._controller.queue.add(set_key(known))
                return

    def _gang_changed(self, change: Change[Any]) -> None:
        old, new = change
        if old is not None and (new is None or old.status != new.status):
            self._soon(set_key(old))

    def _child_gone(self, change: Change[Any]) -> None:
        if change.new is None and change.old is not None:
            self._controller.queue.add(set_key(change.old))

    def _soon(self, key: ObjectKey) -> None:
        """Enqueues the set with a debounce: its PodCliques and gangs change together."""
        owner = self._cluster.sets.store.get(key)
        if owner is not None:
            cliques = owner.spec.replicas * len(owner.spec.template.cliques)
            self._controller.queue.add_after(key, gather_seconds(cliques, CLIQUE_SECONDS))

    # --- reconciling

    async def _release(self, obj: PodCliqueSet) -> None:
        await self._domains.release(obj)
        await super()._release(obj)

    async def _reconcile_live(self, obj: PodCliqueSet) -> float | None:
        if faults := find_faults(obj):
            await self._report_faults(obj, "; ".join(faults))
            return None  # nothing to try again before the set is changed
        return await super()._reconcile_live(obj)

    def _owner_of(self, obj: PodCliqueSet) -> PodCliqueSet | None:
        return obj

    async def _report_faults(self, owner: PodCliqueSet, faults: str) -> None:
        """Writes the faults into the set's status, with one event. Existing children stay."""
        if not any(each.description == faults for each in owner.status.lastErrors):
            self._events.event(owner, "Warning", "InvalidPodCliqueSet", faults)
        await self._write_status(owner, owner, Synced(), OperatorError("ERR_VALIDATE_PODCLIQUESET", faults))

    async def _note_generation(self, owner: PodCliqueSet) -> PodCliqueSet:
        """Stores the template's hash in the status. A changed hash begins an update."""
        current, known = generation_hash(owner), owner.status.currentGenerationHash
        if current == known:
            return owner
        status = replace(owner.status, currentGenerationHash=current)
        if known is not None:
            progress = begun_update(owner, self._clock.now())
            status = replace(status, updateProgress=progress, updatedReplicas=0)
        return await self._cluster.write_status(owner, replace(owner, status=status))

    async def _sync(self, owner: PodCliqueSet, obj: PodCliqueSet) -> Synced[PodCliqueSet]:
        """All steps, as far as they go."""
        owner = await self._note_generation(obj)
        has_token = await self._children.prepare(owner)
        await self._domains.keep(owner)
        owner, waiting = await self._replicas.keep(owner)
        if not has_token:
            return Synced(requeue_seconds=_RETRY_SECONDS)
        await self._children.keep_cliques(owner)
        await self._children.keep_groups(owner)
        if not await self._gangs.keep(owner):
            waiting = min(_RETRY_SECONDS, waiting or _RETRY_SECONDS)
        return Synced(is_done=waiting is None, requeue_seconds=waiting)

    def _with_status(self, owner: PodCliqueSet, obj: PodCliqueSet, now: float) -> PodCliqueSet:
        del owner  # the set itself, without what `obj` says so far
        status = set_status(
            obj,
            by_name(self._cluster.part_of(self._cluster.cliques, obj)),
            by_name(self._cluster.owned(self._cluster.groups, obj)),
            self._cluster.owned(self._cluster.gangs, obj),
            self._cluster.binding_of(obj),
            topology_aware=self._topology_aware,
            now=now,
        )
        return replace(obj, status=status)

    def _patience_seconds(self, before: PodCliqueSet, after: PodCliqueSet) -> float:
        return patience_seconds(before.status, after.status)


def _asked(owner: PodCliqueSet) -> tuple[object, ...]:
    """What of a set asks for another look. Labels and annotations reach gangs with the next one."""
    meta = owner.metadata
    return meta.generation, meta.annotations.get(RECONCILE_TRIGGER_ANNOTATION), is_terminating(owner)


def _clique_state(clique: PodClique) -> tuple[object, ...]:
    status = clique.status
    return (
        clique.metadata.generation,
        is_terminating(clique),
        status.replicas,
        status.readyReplicas,
        status.scheduleGatedReplicas,
        status.updatedReplicas,
        status.currentPodTemplateHash,
        status.currentPodCliqueSetGenerationHash,
        status.updateProgress,
        status_of(status.conditions, BREACHED),
    )


def _group_state(group: PodCliqueScalingGroup) -> tuple[object, ...]:
    status = group.status
    return (
        group.spec.replicas,
        is_terminating(group),
        status.availableReplicas,
        status.updatedReplicas,
        status.currentPodCliqueSetGenerationHash,
        status.updateProgress,
        status_of(status.conditions, BREACHED),
    )
