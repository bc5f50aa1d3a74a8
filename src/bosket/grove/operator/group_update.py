"""Rolling updates of a scaling group's replicas, as pure decisions.

A replica is updated by deleting its PodCliques, which are then created again. Unavailable replicas are replaced at
once, available ones one at a time, the lowest index first, once the last replacement is available and while enough
replicas are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from bosket.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupUpdateProgress,
    PodCliqueSet,
    ReplicasSelectedToUpdate,
)
from bosket.api.time import format_time
from bosket.grove.render.template import clique_minimum, group_replica_of, is_on_delete, is_terminating, set_replica_of
from bosket.grove.status.update import has_template, is_available, is_group_updating, is_updated


def begun_update(
    owner: PodCliqueSet, group: PodCliqueScalingGroup, now: float
) -> PodCliqueScalingGroupUpdateProgress | None:
    """The progress of an update that begins now; None if none does."""
    generation = owner.status.currentGenerationHash
    if generation is None or not _may_begin(owner, group):
        return None
    progress = group.status.updateProgress
    if progress is not None and progress.podCliqueSetGenerationHash == generation:
        return None
    started = format_time(now)
    return PodCliqueScalingGroupUpdateProgress(
        updateStartedAt=started,
        updateEndedAt=started if is_on_delete(owner) else None,
        podCliqueSetGenerationHash=generation,
    )


def _may_begin(owner: PodCliqueSet, group: PodCliqueScalingGroup) -> bool:
    if is_on_delete(owner):
        return True
    progress = owner.status.updateProgress
    if progress is None or not progress.currentlyUpdating:
        return False
    return progress.currentlyUpdating[0].replicaIndex == set_replica_of(group)


@dataclass(frozen=True, slots=True)
class Step:
    """The next step: write the progress, then delete replicas."""

    progress: PodCliqueScalingGroupUpdateProgress
    delete: tuple[int, ...] = ()

    @property
    def has_ended(self) -> bool:
        return not is_group_updating(self.progress)


def by_replica(cliques: Iterable[PodClique]) -> dict[int, list[PodClique]]:
    """PodCliques of a scaling group by the replica that they belong to."""
    found: dict[int, list[PodClique]] = {}
    for each in cliques:
        found.setdefault(group_replica_of(each), []).append(each)
    return found


def next_step(
    owner: PodCliqueSet, group: PodCliqueScalingGroup, replicas: Mapping[int, Sequence[PodClique]], now: float
) -> Step:
    """The next step of a running update."""
    progress = group.status.updateProgress
    assert progress is not None
    chosen = progress.readyReplicaIndicesSelectedToUpdate
    old = [
        index
        for index in range(group.spec.replicas)
        if any(not is_terminating(each) and not has_template(owner, each) for each in replicas.get(index, ()))
    ]
    ready = [index for index in old if _is_ready(replicas[index])]
    useless = tuple(index for index in old if index not in ready)
    if chosen is not None:
        if chosen.current in ready:
            return Step(progress, (*useless, chosen.current))
        if not _is_done(owner, group, replicas.get(chosen.current, ())):
            return Step(progress, useless)
    if not ready:
        ended = replace(progress, updateEndedAt=format_time(now), readyReplicaIndicesSelectedToUpdate=None)
        return Step(progress if useless else ended, useless)
    if group.status.availableReplicas < group.spec.minAvailable:
        return Step(progress, useless)
    completed = (*chosen.completed, chosen.current) if chosen is not None else ()
    selected = ReplicasSelectedToUpdate(current=ready[0], completed=completed)
    return Step(replace(progress, readyReplicaIndicesSelectedToUpdate=selected), (*useless, ready[0]))


def _is_ready(cliques: Sequence[PodClique]) -> bool:
    return all(each.status.scheduledReplicas >= clique_minimum(each) and is_available(each) for each in cliques)


def _is_done(owner: PodCliqueSet, group: PodCliqueScalingGroup, cliques: Sequence[PodClique]) -> bool:
    """Whether the chosen replica is up again, from the present template; one that was scaled away is done, too."""
    selected = group.status.updateProgress
    assert selected is not None
    assert selected.readyReplicaIndicesSelectedToUpdate is not None
    if selected.readyReplicaIndicesSelectedToUpdate.current >= group.spec.replicas:
        return True
    if len(cliques) != len(group.spec.cliqueNames):
        return False
    return all(not is_terminating(each) and is_updated(owner, each) for each in cliques)
