"""SetReplicas: replicas of a set as a whole: gang termination, and rolling updates one replica at a time."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from bosket.api.grove import PodClique, PodCliqueScalingGroup, PodCliqueSet
from bosket.grove.condition import TERMINATING_GANG, with_condition
from bosket.grove.operator.cluster import Cluster, by_name
from bosket.grove.operator.problem import reported
from bosket.grove.operator.set_update import is_rolling, next_progress
from bosket.grove.render.template import groups_of, set_replica_of, standalone_names
from bosket.grove.status.termination import Breach, clique_breaches, group_breaches
from bosket.runtime.events import EventRecorder


class SetReplicas:
    """Decides about, and replaces, replicas of sets."""

    def __init__(self, cluster: Cluster, events: EventRecorder) -> None:
        self._cluster = cluster
        self._events = events

    async def keep(self, owner: PodCliqueSet) -> tuple[PodCliqueSet, float | None]:
        """Terminates replicas where due, and continues an update; returns the seconds until the next look, if any."""
        cliques = by_name(
            each
            for each in self._cluster.part_of(self._cluster.cliques, owner)
            if not self._cluster.is_terminating(each)
        )
        groups = by_name(self._cluster.owned(self._cluster.groups, owner))
        breaches = {
            replica: found
            for replica in range(owner.spec.replicas)
            if (found := self._breaches(owner, replica, cliques, groups))
        }
        over = [replica for replica, found in breaches.items() if any(each.is_over for each in found)]
        for replica in over:
            await self._terminate(owner, replica, cliques, groups)
        left = [each.seconds_left for replica, found in breaches.items() if replica not in over for each in found]
        wait = min(left, default=None)
        if is_rolling(owner):
            breached = breaches.keys() - set(over)
            progress = next_progress(
                owner, cliques, groups, self._cluster.clock.now(), leave_out=over, breached=breached
            )
            status = replace(owner.status, updateProgress=progress)
            owner = await self._cluster.write_status(owner, replace(owner, status=status))
            if is_rolling(owner):
                wait = min(5.0, wait if wait is not None else 5.0)
        return owner, wait

    def _breaches(
        self,
        owner: PodCliqueSet,
        replica: int,
        cliques: Mapping[str, PodClique],
        groups: Mapping[str, PodCliqueScalingGroup],
    ) -> list[Breach]:
        """Who of a replica is below its minimum; nobody as long as PodCliques are still to be made."""
        now = self._cluster.clock.now()
        standalone = [cliques.get(name) for name in standalone_names(owner, replica)]
        there = [each for each in standalone if each is not None]
        if len(there) < len(standalone):
            return []
        found_groups = [groups[each.name] for each in groups_of(owner, replica) if each.name in groups]
        return [*clique_breaches(owner, there, now), *group_breaches(owner, found_groups, now)]

    async def _terminate(
        self,
        owner: PodCliqueSet,
        replica: int,
        cliques: Mapping[str, PodClique],
        groups: Mapping[str, PodCliqueScalingGroup],
    ) -> None:
        """Deletes all PodCliques of a replica, which are then recreated; notes the deletion once in its scaling
        groups."""
        what = f"Error deleting PodCliqueSet replica {replica}"
        with reported(self._events, owner, "PodCliqueSetReplicaDeleteFailed", "ERR_DELETE_PCS_REPLICA", what):
            for clique in cliques.values():
                if set_replica_of(clique) == replica:
                    await self._cluster.delete(clique)
        self._events.event(
            owner, "Normal", "PodCliqueSetReplicaDeleteSuccessful", f"PodCliqueSet replica {replica} deleted"
        )
        now = self._cluster.clock.now()
        message = f"Gang termination fired at PCS-replica scope for PCS replica {replica}"
        for each in groups_of(owner, replica):
            group = groups.get(each.name)
            if group is not None:
                conditions = with_condition(
                    group.status.conditions, TERMINATING_GANG, "True", "GangTerminationActive", message, now=now
                )
                after = replace(group, status=replace(group.status, conditions=conditions))
                await self._cluster.write_status(group, after)
