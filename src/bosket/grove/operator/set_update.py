"""Rolling updates of a set, as pure decisions: one replica of the set at a time.

A replica is done when all its PodCliques and scaling groups are. The next one is a replica without scheduled pods, then
one below its minimum, then the lowest index.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetUpdateProgress,
    ReplicaUpdateProgress,
)
from bosket.api.time import format_time
from bosket.grove.render.template import groups_of, is_on_delete, min_available, standalone_names, template_named
from bosket.grove.status.update import is_group_updated, is_updated


def begun_update(owner: PodCliqueSet, now: float) -> PodCliqueSetUpdateProgress:
    """The progress of an update that begins now."""
    started = format_time(now)
    return PodCliqueSetUpdateProgress(updateStartedAt=started, updateEndedAt=started if is_on_delete(owner) else None)


def is_rolling(owner: PodCliqueSet) -> bool:
    """Whether an update is being rolled out."""
    progress = owner.status.updateProgress
    return not is_on_delete(owner) and progress is not None and progress.updateEndedAt is None


def next_progress(
    owner: PodCliqueSet,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
    now: float,
    *,
    leave_out: Collection[int],
    breached: Collection[int],
) -> PodCliqueSetUpdateProgress:
    """The progress of a running update, given the state of the replicas.

    Replicas in `leave_out` are being recreated anyway.
    """
    progress = owner.status.updateProgress
    assert progress is not None
    current = progress.currentlyUpdating[0].replicaIndex if progress.currentlyUpdating else -1
    waiting = []
    for replica in range(owner.spec.replicas):
        if replica in leave_out:
            continue
        if not _is_done(owner, replica, cliques, groups):
            if replica == current:
                return progress
            waiting.append(replica)
    if not waiting:
        return replace(progress, updateEndedAt=format_time(now), currentlyUpdating=())

    def order(replica: int) -> tuple[bool, bool, int]:
        return bool(_scheduled_pods(owner, replica, cliques, groups)), replica not in breached, replica

    chosen = ReplicaUpdateProgress(replicaIndex=min(waiting, key=order), updateStartedAt=format_time(now))
    return replace(progress, currentlyUpdating=(chosen,))


def _is_done(
    owner: PodCliqueSet,
    replica: int,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
) -> bool:
    found = [cliques.get(name) for name in standalone_names(owner, replica)]
    found_groups = [groups.get(each.name) for each in groups_of(owner, replica)]
    return all(each is not None and is_updated(owner, each) for each in found) and all(
        each is not None and is_group_updated(owner, each) for each in found_groups
    )


def _scheduled_pods(
    owner: PodCliqueSet,
    replica: int,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
) -> int:
    names: Sequence[str] = standalone_names(owner, replica)
    count = sum(each.status.scheduledReplicas for name in names if (each := cliques.get(name)) is not None)
    for group in groups_of(owner, replica):
        found = groups.get(group.name)
        if found is not None:
            members = (template_named(owner, name) for name in group.config.cliqueNames)
            per_replica = sum(min_available(each) for each in members if each is not None)
            count += found.status.scheduledReplicas * per_replica
    return count
