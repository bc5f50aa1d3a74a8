"""GroupController: keeps the PodCliques of each replica of a scaling group, and replaces replicas as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.api.grove.naming import GROUP_FINALIZER, GROUP_LABEL, clique_name
from bosket.api.object import ObjectKey
from bosket.grove.operator.claims import keep_claims
from bosket.grove.operator.cluster import Cluster, by_name
from bosket.grove.operator.event_text import about_cliques
from bosket.grove.operator.group_update import begun_update, by_replica, next_step
from bosket.grove.operator.problem import reported
from bosket.grove.operator.reconciler import Reconciler, Synced
from bosket.grove.render.claim import group_sharing
from bosket.grove.render.clique import member_clique
from bosket.grove.render.template import group_config_of, group_replica_of, is_on_delete, is_terminating, template_named
from bosket.grove.status.gathering import CLIQUE_SECONDS, gather_seconds
from bosket.grove.status.group import group_status, patience_seconds
from bosket.grove.status.termination import clique_breaches, is_breached
from bosket.grove.status.update import is_group_updating
from bosket.kube.informer import Change
from bosket.runtime.concurrent import for_each
from bosket.runtime.service import Environment

NAME: Final = "podcliquescalinggroup-controller"
_RETRY_SECONDS: Final = 5.0


class GroupController(Reconciler[PodCliqueScalingGroup]):
    """Reconciles PodCliqueScalingGroups."""

    name = NAME
    finalizer = GROUP_FINALIZER
    error_code = "ERR_SYNC_PODCLIQUESCALINGGROUP"

    def __init__(self, env: Environment, cluster: Cluster, *, workers: int) -> None:
        super().__init__(env, cluster, cluster.groups, workers=workers)
        cluster.groups.subscribe(self._group_changed)
        cluster.cliques.subscribe(self._clique_changed)
        cluster.sets.subscribe(self._set_changed)

    # --- events

    def _group_changed(self, change: Change[PodCliqueScalingGroup]) -> None:
        old, new = change
        if new is not None and (
            old is None
            or old.metadata.generation != new.metadata.generation
            or is_terminating(old) != is_terminating(new)
            or _update_may_go_on(old, new)
        ):
            self._controller.queue.add(new.key)

    def _clique_changed(self, change: Change[PodClique]) -> None:
        known = change.new or change.old
        if known is None or GROUP_LABEL not in known.metadata.labels:
            return
        key = ObjectKey(known.metadata.namespace, known.metadata.labels[GROUP_LABEL])
        group = self._cluster.groups.store.get(key)
        if group is not None:
            cliques = group.spec.replicas * len(group.spec.cliqueNames)
            self._controller.queue.add_after(key, gather_seconds(cliques, CLIQUE_SECONDS))

    def _set_changed(self, change: Change[PodCliqueSet]) -> None:
        old, new = change
        if new is None or (
            old is not None
            and old.metadata.generation == new.metadata.generation
            and old.status.currentGenerationHash == new.status.currentGenerationHash
            and old.status.updateProgress == new.status.updateProgress
        ):
            return
        for group in self._cluster.part_of(self._cluster.groups, new):
            self._controller.queue.add(group.key)

    # --- reconciling

    def _owner_of(self, obj: PodCliqueScalingGroup) -> PodCliqueSet | None:
        return self._cluster.set_of(obj)

    async def _sync(self, owner: PodCliqueSet, obj: PodCliqueScalingGroup) -> Synced[PodCliqueScalingGroup]:
        obj = await self._begin_update(owner, obj)
        await keep_claims(self._cluster, owner, obj, group_sharing(owner, obj))
        requeue = await self._sync_cliques(owner, obj)
        return Synced(is_done=requeue is None, requeue_seconds=requeue)

    async def _begin_update(self, owner: PodCliqueSet, group: PodCliqueScalingGroup) -> PodCliqueScalingGroup:
        progress = begun_update(owner, group, self._clock.now())
        if progress is None:
            return group
        status = replace(group.status, updateProgress=progress, updatedReplicas=0)
        return await self._cluster.write_status(group, replace(group, status=status))

    async def _sync_cliques(self, owner: PodCliqueSet, group: PodCliqueScalingGroup) -> float | None:
        """Deletes, creates and replaces PodCliques; returns the seconds until the next look, if any."""
        there = self._cluster.owned(self._cluster.cliques, group)
        surplus = sorted({index for each in there if (index := group_replica_of(each)) >= group.spec.replicas})
        await self._delete_replicas(owner, group, by_replica(there), surplus)
        await self._make_cliques(owner, group, by_name(there))
        replicas = by_replica(
            each for each in self._cluster.owned(self._cluster.cliques, group) if not self._cluster.is_terminating(each)
        )
        if is_group_updating(group.status.updateProgress):
            return None if is_on_delete(owner) else await self._update(owner, group, replicas)
        return await self._terminate(owner, group, replicas)

    async def _make_cliques(
        self, owner: PodCliqueSet, group: PodCliqueScalingGroup, there: Mapping[str, PodClique]
    ) -> None:
        """Creates missing PodCliques. Existing ones are changed only with the update strategy OnDelete."""
        if group_config_of(owner, group) is None:
            return  # the set will delete it
        made: list[PodClique] = []
        for index in range(group.spec.replicas):
            for name in group.spec.cliqueNames:
                template = template_named(owner, name)
                existing = there.get(clique_name(group.metadata.name, index, name))
                if template is None or (existing is not None and self._cluster.is_terminating(existing)):
                    continue
                if existing is None:
                    made.append(member_clique(owner, group, index, template, None))
                elif is_on_delete(owner):
                    await self._change(group, existing, member_clique(owner, group, index, template, existing))
        await self._create(group, made)

    async def _create(self, group: PodCliqueScalingGroup, cliques: Sequence[PodClique]) -> None:
        async def create(clique: PodClique) -> str:
            what = f"PodClique {clique.key} creation failed"
            with reported(self._events, group, "PodCliqueCreateFailed", "ERR_CREATE_PODCLIQUE", what):
                made = await self._cluster.make(clique)
            return str(made.key) if made is not None else ""

        names = [each for each in await for_each(cliques, create) if each]
        if names:
            message = about_cliques(names, "created successfully")
            self._events.event(group, "Normal", "PodCliqueCreateSuccessful", message)

    async def _change(self, group: PodCliqueScalingGroup, before: PodClique, after: PodClique) -> None:
        if before == after:
            return
        what = f"PodClique {before.key} creation or update failed"
        code = "ERR_CREATE_OR_UPDATE_PODCLIQUES"
        with reported(self._events, group, "PodCliqueCreateOrUpdateFailed", code, what):
            await self._cluster.write(before, after)
        message = f"PodClique {before.key} created or updated successfully"
        self._events.event(group, "Normal", "PodCliqueCreateOrUpdateSuccessful", message)

    async def _update(
        self, owner: PodCliqueSet, group: PodCliqueScalingGroup, replicas: Mapping[int, Sequence[PodClique]]
    ) -> float | None:
        step = next_step(owner, group, replicas, self._clock.now())
        status = replace(group.status, updateProgress=step.progress)
        group = await self._cluster.write_status(group, replace(group, status=status))
        await self._delete_replicas(owner, group, replicas, step.delete)
        return None if step.has_ended else _RETRY_SECONDS

    async def _terminate(
        self, owner: PodCliqueSet, group: PodCliqueScalingGroup, replicas: Mapping[int, Sequence[PodClique]]
    ) -> float | None:
        """Replaces replicas that are below their minimum for too long, while enough others are left.

        Otherwise the set controller replaces the whole replica of the set.
        """
        now = self._clock.now()
        breaches = {index: list(clique_breaches(owner, cliques, now)) for index, cliques in replicas.items()}
        breaches = {index: found for index, found in breaches.items() if found}
        # Those that were never up aren't terminated, but are no use to the group either.
        below = [index for index, cliques in replicas.items() if any(map(is_breached, cliques))]
        if not breaches or group.spec.replicas - len(below) < group.spec.minAvailable:
            return None
        over = sorted(index for index, found in breaches.items() if any(each.is_over for each in found))
        await self._delete_replicas(owner, group, replicas, over)
        left = [each.seconds_left for found in breaches.values() for each in found if not each.is_over]
        return min(left, default=None) if not over else _RETRY_SECONDS

    async def _delete_replicas(
        self,
        owner: PodCliqueSet,
        group: PodCliqueScalingGroup,
        replicas: Mapping[int, Sequence[PodClique]],
        indices: Iterable[int],
    ) -> None:
        for index in indices:
            what = f"Error deleting PodCliqueScalingGroup {group.metadata.name} replicaIndex {index}"
            with reported(
                self._events, owner, "PodCliqueScalingGroupReplicaDeleteFailed", "ERR_DELETE_PODCLIQUE", what
            ):
                deleted = [await self._cluster.delete(each) for each in replicas.get(index, ())]
            if any(deleted):
                message = f"Deleted PodCliqueScalingGroup {group.metadata.name} replicaIndex: {index}"
                self._events.event(owner, "Normal", "PodCliqueScalingGroupReplicaDeleteSuccessful", message)

    def _with_status(self, owner: PodCliqueSet, obj: PodCliqueScalingGroup, now: float) -> PodCliqueScalingGroup:
        cliques = self._cluster.owned(self._cluster.cliques, obj)
        return replace(obj, status=group_status(owner, obj, cliques, now))

    def _patience_seconds(self, before: PodCliqueScalingGroup, after: PodCliqueScalingGroup) -> float:
        return patience_seconds(after, before.status, after.status)

    def _status_changes(self, before: PodCliqueScalingGroup, after: PodCliqueScalingGroup) -> None:
        lost = before.status.scheduledReplicas
        if lost and not after.status.scheduledReplicas:
            self._events.event(
                after,
                "Warning",
                "AllScheduledReplicasLost",
                f"All scheduled replicas lost (was {lost}). The gang is terminated after its terminationDelay if the"
                " scaling group stays below its minimum",
            )


def _update_may_go_on(old: PodCliqueScalingGroup, new: PodCliqueScalingGroup) -> bool:
    """Whether another replica may go because more of them are available than before."""
    return is_group_updating(new.status.updateProgress) and old.status.availableReplicas < new.status.availableReplicas
