"""CliqueController: keeps the pods of a PodClique, and removes their scheduling gate.

Pods are created once their gang exists, gated. The gate is removed when the gang refers to the pod and, in a scaled
gang, when the base gang has its minimum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from bosket.api.core import Pod
from bosket.api.grove import POD_CLIQUE, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from bosket.api.grove.naming import (
    BASE_GANG_LABEL,
    CLIQUE_FINALIZER,
    GANG_LABEL,
    TEMPLATE_HASH_LABEL,
)
from bosket.api.object import ObjectKey
from bosket.api.ownership import controller_of
from bosket.grove.backends import GangBackends
from bosket.grove.operator.claims import keep_claims
from bosket.grove.operator.clique_pods import CliquePods
from bosket.grove.operator.clique_update import begun_update, next_step
from bosket.grove.operator.cluster import Cluster
from bosket.grove.operator.reconciler import Reconciler, Synced
from bosket.grove.render.claim import clique_sharing
from bosket.grove.render.pod import InitProgram
from bosket.grove.render.template import is_on_delete, is_terminating
from bosket.grove.status.clique import clique_status, is_updating, patience_seconds
from bosket.grove.status.gathering import POD_SECONDS, gather_seconds
from bosket.grove.status.pod_state import free_indices, victims
from bosket.grove.status.update import has_template
from bosket.kube.informer import Change
from bosket.runtime.service import Environment

NAME: Final = "podclique-controller"
#: Seconds until a retry where no event may come.
_RETRY_SECONDS: Final = 5.0
#: The same for gated pods, longer: the gang's events enqueue them anyway.
_GATED_SECONDS: Final = 60.0
#: Of more than these, those that go are gathered too: a look for each would cost more than it is worth.
_FEW_PODS: Final = 100
_BY_BASE_GANG: Final = "grove/base-gang"


class CliqueController(Reconciler[PodClique]):
    """Reconciles PodCliques."""

    name = NAME
    finalizer = CLIQUE_FINALIZER
    error_code = "ERR_SYNC_PODCLIQUE"

    def __init__(
        self, env: Environment, cluster: Cluster, backends: GangBackends, *, init_program: InitProgram, workers: int
    ) -> None:
        super().__init__(env, cluster, cluster.cliques, workers=workers)
        self._pods = CliquePods(cluster, self._events, backends, init_program)
        cluster.cliques.add_index(_BY_BASE_GANG, _base_gang)
        cluster.cliques.subscribe(self._clique_changed)
        cluster.pods.subscribe(self._pod_changed)
        cluster.gangs.subscribe(self._gang_changed)
        cluster.sets.subscribe(self._set_changed)
        cluster.groups.subscribe(self._group_changed)

    # --- events

    def _clique_changed(self, change: Change[PodClique]) -> None:
        old, new = change
        if new is not None and (old is None or old.metadata.generation != new.metadata.generation or _ends(old, new)):
            self._controller.queue.add(new.key)
        if old is None or new is None or old.status.scheduledReplicas != new.status.scheduledReplicas:
            known = new or old
            assert known is not None
            gang = ObjectKey(known.metadata.namespace, known.metadata.labels.get(GANG_LABEL, ""))
            for waiting in self._cluster.cliques.store.by_index(_BY_BASE_GANG, str(gang)):
                self._controller.queue.add(waiting.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        known = change.new or change.old
        reference = controller_of(known) if known is not None else None
        if known is not None and reference is not None and reference.kind == POD_CLIQUE.kind:
            # A terminating pod is replaced at once: while it exists, its successor can prefer its node.
            goes = change.new is not None and is_terminating(change.new)
            key = ObjectKey(known.metadata.namespace, reference.name)
            clique = self._cluster.cliques.store.get(key)
            pods = clique.spec.replicas if clique is not None else 0
            at_once = goes and pods <= _FEW_PODS
            self._controller.queue.add_after(key, 0.0 if at_once else gather_seconds(pods, POD_SECONDS))

    def _gang_changed(self, change: Change[PodGang]) -> None:
        old, new = change
        if new is None or (old is not None and old.spec == new.spec):
            return
        for group in new.spec.podgroups:
            self._controller.queue.add(ObjectKey(new.metadata.namespace, group.name))

    def _set_changed(self, change: Change[PodCliqueSet]) -> None:
        old, new = change
        if new is None or (old is not None and _update_state(old) == _update_state(new)):
            return
        for clique in self._cluster.part_of(self._cluster.cliques, new):
            self._controller.queue.add(clique.key)

    def _group_changed(self, change: Change[PodCliqueScalingGroup]) -> None:
        old, new = change
        if new is None or (
            old is not None
            and old.status.currentPodCliqueSetGenerationHash == new.status.currentPodCliqueSetGenerationHash
        ):
            return
        for clique in self._cluster.owned(self._cluster.cliques, new):
            self._controller.queue.add(clique.key)

    # --- reconciling

    def _owner_of(self, obj: PodClique) -> PodCliqueSet | None:
        owner = self._cluster.set_of(obj)
        if owner is not None and obj.status.observedGeneration is None and self._gang_of(obj) is None:
            return None  # its gang comes before it has anything to tell
        return owner

    async def _sync(self, owner: PodCliqueSet, obj: PodClique) -> Synced[PodClique]:
        await keep_claims(self._cluster, owner, obj, clique_sharing(owner, obj))
        obj, is_done, all_released = await self._sync_pods(owner, obj)
        requeue = _RETRY_SECONDS if not is_done else None if all_released else _GATED_SECONDS
        return Synced(is_done, requeue, unwritten=obj)

    async def _sync_pods(self, owner: PodCliqueSet, clique: PodClique) -> tuple[PodClique, bool, bool]:
        """Creates, deletes, updates and releases pods; returns the PodClique, whether its pods are as they should be,
        and whether none is gated."""
        gang = self._gang_of(clique)
        if gang is None:
            return clique, False, False
        pods = self._cluster.owned(self._cluster.pods, clique)
        staying = [each for each in pods if not self._cluster.is_terminating(each)]
        missing = clique.spec.replicas - len(staying)
        if missing > 0:
            await self._pods.create(owner, clique, gang, free_indices(staying, missing))
        elif missing < 0:
            hash_ = clique.metadata.labels.get(TEMPLATE_HASH_LABEL, "")
            await self._pods.delete(clique, victims(staying, -missing, hash_))
        clique, is_done = await self._update(owner, clique)
        all_released = await self._pods.release(clique, gang, pods)
        return clique, is_done, all_released

    def _gang_of(self, clique: PodClique) -> PodGang | None:
        name = clique.metadata.labels.get(GANG_LABEL, "")
        return self._cluster.gangs.store.get(ObjectKey(clique.metadata.namespace, name))

    async def _update(self, owner: PodCliqueSet, clique: PodClique) -> tuple[PodClique, bool]:
        """Starts a due update and takes its next step; returns whether nothing is left to update.

        A step that deletes pods is written into the status first: after a crash the next process continues it. Other
        steps are written with the rest of the status.
        """
        stored, progress = clique, begun_update(owner, clique, self._clock.now())
        if progress is not None:
            clique = replace(clique, status=replace(clique.status, updateProgress=progress, updatedReplicas=0))
        progress = clique.status.updateProgress
        if progress is None or not is_updating(progress) or is_on_delete(owner):
            return clique, True
        if not has_template(owner, clique):
            return clique, False  # the set's controller is about to change it
        pods = self._cluster.owned(self._cluster.pods, clique)
        step = next_step(clique, pods, self._cluster.is_terminating, progress.podTemplateHash, self._clock.now())
        clique = replace(clique, status=replace(clique.status, updateProgress=step.progress))
        if step.delete:
            clique = await self._cluster.write_status(stored, clique)
            await self._pods.delete(clique, step.delete)
        return clique, step.has_ended

    def _with_status(self, owner: PodCliqueSet, obj: PodClique, now: float) -> PodClique:
        pods = self._cluster.owned(self._cluster.pods, obj)
        return replace(obj, status=clique_status(owner, obj, pods, now))

    def _patience_seconds(self, before: PodClique, after: PodClique) -> float:
        return patience_seconds(after, before.status, after.status)

    def _status_changes(self, before: PodClique, after: PodClique) -> None:
        lost = before.status.scheduledReplicas
        if lost and not after.status.scheduledReplicas:
            self._events.event(
                after,
                "Warning",
                "AllScheduledReplicasLost",
                f"All scheduled pods lost (was {lost}). The gang is terminated after its terminationDelay if the"
                " PodClique stays below its minimum",
            )


def _ends(old: PodClique, new: PodClique) -> bool:
    return is_terminating(new) and not is_terminating(old)


def _base_gang(clique: PodClique) -> Iterable[str]:
    base = clique.metadata.labels.get(BASE_GANG_LABEL)
    return (str(ObjectKey(clique.metadata.namespace, base)),) if base else ()


def _update_state(owner: PodCliqueSet) -> tuple[object, ...]:
    """The fields of a set's status that its PodCliques depend on."""
    progress = owner.status.updateProgress
    current = progress.currentlyUpdating[0].replicaIndex if progress and progress.currentlyUpdating else None
    ended = progress is None or progress.updateEndedAt is not None
    return owner.status.currentGenerationHash, current, ended, is_on_delete(owner)
